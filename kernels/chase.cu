// How long one load takes: a chain of lines, each holding where the next one is, walked by one thread. No load can
// start before the one ahead of it has ended. Traffic: one 128-byte line a hop; `evict_lines` and `lay_chain` one word
// a line.
#include "include/timing.cuh"

// Writes the same ring of `lines` lines into each of `tiles` regions that follow one another at `stride_words`.
// `order`: where the lines are, as word offsets within a region, in the order in which they are walked.
MATS_KERNEL(lay_chain, u64 tiles, u64* data, u64 stride_words, const u64* order, u64 lines) {
  for (u64 i = blockIdx.x * (u64)MATS_LANES + MATS_LANE; i < tiles * lines; i += (u64)gridDim.x * MATS_LANES) {
    const u64 line = i % lines, next = line + 1 == lines ? 0 : line + 1;
    store_word(data + i / lines * stride_words + order[line], order[next]);
  }
  finish_stores();
}

// Puts the lines out of the cache one by one where the processor can (`done` becomes 1); elsewhere the caller passes
// the cache by reading more than it holds. `tiles` is the number of lines.
MATS_KERNEL(evict_lines, u64 tiles, const u64* data, const u64* order, u64* done) {
  for (u64 i = blockIdx.x * (u64)MATS_LANES + MATS_LANE; i < tiles; i += (u64)gridDim.x * MATS_LANES)
    evict_line(data + order[i]);
  if (blockIdx.x == 0 && MATS_LANE == 0) *done = can_evict();
}

// Walks `hops` hops from word `start` on multiprocessor `unit`: of the blocks that are there the first one does it.
// Before the clock starts, `ahead` hops are walked and one line of each 2 MiB page that no chain uses, the first, is
// read on `pages` pages, so that the translation of addresses is known. `mask`: words of the region less one; a wrong
// value read from a faulty memory therefore stays within it. `near`: through the nearest cache.
MATS_KERNEL(walk_chain, u64 tiles, const u64* data, u64 mask, u64 start, u64 ahead, u64 hops, u64 pages, u32 unit,
            u32 near, u64* walk) {
  if (tiles == 0 || MATS_LANE != 0 || multiprocessor() != unit || add_atomic(walk + MATS_WALK_CLAIMED, 1) != 0) return;
  const u32 within = (u32)mask;
  u32 at = (u32)start & within;
  u64 sum = 0;
  MATS_ROLLED for (u64 page = 0; page < pages; ++page) sum ^= load_chained(data + (page << MATS_PAGE_SHIFT));
  read_cycles_after(sum);  // none of these reads is still on its way when the clock starts
  if (near) {
    for (u64 i = 0; i < ahead; ++i) at = (u32)load_near(data + at) & within;
    const u64 ns = read_nanoseconds(), cycles = read_cycles_after(at);
    MATS_ROLLED for (u64 i = 0; i < hops; ++i) at = (u32)load_near(data + at) & within;
    walk[MATS_WALK_CYCLES] = read_cycles_after(at) - cycles;
    walk[MATS_WALK_NANOSECONDS] = read_nanoseconds() - ns;
  } else {
    for (u64 i = 0; i < ahead; ++i) at = (u32)load_chained(data + at) & within;
    const u64 ns = read_nanoseconds(), cycles = read_cycles_after(at);
    MATS_ROLLED for (u64 i = 0; i < hops; ++i) at = (u32)load_chained(data + at) & within;
    walk[MATS_WALK_CYCLES] = read_cycles_after(at) - cycles;
    walk[MATS_WALK_NANOSECONDS] = read_nanoseconds() - ns;
  }
  walk[MATS_WALK_END] = at;
  walk[MATS_WALK_SUM] = sum;
}

// As walk_chain, and times each hop for itself: `times` gets cycles, one a hop. The second clock is read by a form
// that waits for the load; a plain read would not (see timing.cuh).
MATS_KERNEL(time_hops, u64 tiles, const u64* data, u64 mask, u64 start, u64 hops, u64 pages, u32 unit, u64* times,
            u64* walk) {
  if (tiles == 0 || MATS_LANE != 0 || multiprocessor() != unit || add_atomic(walk + MATS_WALK_CLAIMED, 1) != 0) return;
  const u32 within = (u32)mask;
  u32 at = (u32)start & within;
  u64 sum = 0;
  MATS_ROLLED for (u64 page = 0; page < pages; ++page) sum ^= load_chained(data + (page << MATS_PAGE_SHIFT));
  read_cycles_after(sum);  // none of these reads is still on its way when the clock starts
  MATS_ROLLED for (u64 i = 0; i < hops; ++i) {
    const u64 before = read_cycles();
    const u64 next = load_chained(data + at);
    times[i] = read_cycles_after(next) - before;
    at = (u32)next & within;
  }
  walk[MATS_WALK_END] = at;
  walk[MATS_WALK_SUM] = sum;
}
