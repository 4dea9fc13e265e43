/* An independent measure of what one dependent load from memory takes, to compare `mats latency-test` with.
 *
 * chase BYTES HOPS WALKS: a ring over every 64-byte line of BYTES bytes (Sattolo's shuffle), in huge pages where they
 * can be had, as mats asks for them; pointers, not offsets. Every line is written as the ring is shuffled, and then
 * walked for a while before it is timed. Prints nanoseconds a hop of the fastest of WALKS walks of HOPS hops each: a
 * machine that is busy makes some longer, and none shorter. One such figure for each character that it is sent. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

struct line {
  struct line* next;
  char rest[64 - sizeof(struct line*)];
};

static uint64_t state = 0x2545F4914F6CDD1D;
static uint64_t draw(uint64_t below) { /* xorshift64* */
  state ^= state >> 12;
  state ^= state << 25;
  state ^= state >> 27;
  return (state * 0x2545F4914F6CDD1Dull >> 11) % below;
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

int main(int count, char** words) {
  if (count != 4) return 2;
  const size_t size = strtoull(words[1], NULL, 10), hops = strtoull(words[2], NULL, 10);
  const size_t walks = strtoull(words[3], NULL, 10), page = 2u << 20;
  const size_t lines = size / sizeof(struct line);
  char* raw = mmap(NULL, size + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (raw == MAP_FAILED || lines < 2) return 1;
  struct line* ring = (struct line*)(((uintptr_t)raw + page - 1) / page * page);
  madvise(ring, size, MADV_HUGEPAGE);
  for (size_t i = 0; i < lines; ++i) ring[i].next = ring + i;
  for (size_t i = lines - 1; i > 0; --i) {
    const size_t j = draw(i);
    struct line* const other = ring[j].next;
    ring[j].next = ring[i].next;
    ring[i].next = other;
  }
  struct line* volatile at = ring;
  struct line* p = at;
  while (getchar() != EOF) {
    double fastest = 0;
    for (size_t walk = 0; walk <= walks; ++walk) { /* the first one is not counted */
      const double start = now();
      for (size_t i = 0; i < hops; ++i) p = p->next;
      const double taken = now() - start;
      if (walk == 1 || (walk > 1 && taken < fastest)) fastest = taken;
    }
    printf("%.3f\n", fastest / (double)hops);
    fflush(stdout);
  }
  at = p;
  return at == NULL;
}
