// How a kernel reports words that differ. Only the slow path comes here, so atomics cost nothing on clean memory.
#ifndef MATS_REPORT_CUH
#define MATS_REPORT_CUH

#include "mats.cuh"

// Layout of the report, in 64-bit words. Sums that must agree (failed words, histogram totals, pages) let the host
// notice a tester whose own counters were damaged.
#define MATS_REPORT_FAILED 0    // words that differed
#define MATS_REPORT_RECORDED 1  // records claimed; may exceed the capacity
#define MATS_REPORT_RISEN 8     // 64 counters by bit position: read 1, expected 0
#define MATS_REPORT_FALLEN 72   // 64 counters by bit position: read 0, expected 1
#define MATS_REPORT_FLIPPED 136 // 65 counters by number of differing bits in the word
#define MATS_REPORT_WORDS 256

// One record, in 64-bit words.
#define MATS_RECORD_WORD 0      // index in the tested space
#define MATS_RECORD_ADDRESS 1   // virtual address
#define MATS_RECORD_EXPECTED 2
#define MATS_RECORD_ACTUAL 3
#define MATS_RECORD_REREAD 4    // two later reads
#define MATS_RECORD_REWRITE 6   // read after writing the expected value again
#define MATS_RECORD_UNIT 7      // multiprocessor that saw it
#define MATS_RECORD_WORDS 8

MATS_SLOW void report_word(u64* report, u64* pages, u64* records, u64 capacity, const u64* address, u64 local, u64 index,
                           u64 want, u64 seen) {
  u64 flips = want ^ seen;
  add_atomic(report + MATS_REPORT_FAILED, 1);
  add_atomic(report + MATS_REPORT_FLIPPED + count_bits(flips), 1);
  add_atomic(pages + (local >> MATS_PAGE_SHIFT), 1);
  while (flips) {
    const u32 bit = lowest_bit(flips);
    add_atomic(report + ((seen >> bit & 1) ? MATS_REPORT_RISEN : MATS_REPORT_FALLEN) + bit, 1);
    flips &= flips - 1;
  }
  const u64 slot = add_atomic(report + MATS_REPORT_RECORDED, 1);
  if (slot < capacity) {
    u64* record = records + slot * MATS_RECORD_WORDS;
    record[MATS_RECORD_WORD] = index;
    record[MATS_RECORD_ADDRESS] = (u64)address;
    record[MATS_RECORD_EXPECTED] = want;
    record[MATS_RECORD_ACTUAL] = seen;
    record[MATS_RECORD_UNIT] = multiprocessor();
  }
}

// Where a sweep writes down what differs.
struct Book {
  u64 *report, *pages, *records, capacity;
};

// Reports the words of a batch that differ.
MATS_COLD void report_batch(const u64* data, u64 vector, u64 first, const Kept& want, const Kept& seen, Book book) {
  MATS_UNROLL
  for (u32 i = 0; i < 2 * MATS_BATCH; ++i) {
    const u64 wanted = want.word[i], found = seen.word[i];
    if (wanted == found) continue;
    const u64 local = 2 * (vector + (u64)(i / 2) * MATS_LANES) + (i & 1);
    report_word(book.report, book.pages, book.records, book.capacity, data + local, local, first + local, wanted, found);
  }
}

// Compares a batch with what it should be; `first` is the index in the tested space of the chunk's first word.
MATS_DEVICE void check_batch(const u64* data, u64 vector, u64 first, const Batch& want, const Batch& seen,
                             const Book& book) {
  Wide differs = {};
  MATS_UNROLL
  for (u32 k = 0; k < MATS_WIDES; ++k) differs |= want.wide[k] ^ seen.wide[k];
  if (any_bit(differs)) report_batch(data, vector, first, keep(want), keep(seen), book);
}

#endif
