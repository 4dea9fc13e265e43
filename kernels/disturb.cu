// Row disturb: reads pairs of aggressor rows again and again between a write and a verify of everything.
// Traffic: `repeats` reads of 2 words a tile pair; on a CPU each read first evicts its line, so that it activates a
// row; on a GPU the sweep over all pairs must exceed L2 to do so: the caller states the rate that was reached.
#include "include/report.cuh"

// Lane i alternates between the words at `offset_words + i * step_words` and `+ distance_words`; `tiles` is the number
// of pairs.
MATS_KERNEL(row_disturb, u64 tiles, const u64* data, u64 offset_words, u64 step_words, u64 distance_words, u64 repeats,
            u64* sink) {
  u64 sum = 0;
  for (u64 r = 0; r < repeats; ++r) {
    for (u64 i = blockIdx.x * (u64)MATS_LANES + MATS_LANE; i < tiles; i += (u64)gridDim.x * MATS_LANES) {
      const u64* near = data + offset_words + i * step_words;
      sum ^= load_uncached(near);
      sum ^= load_uncached(near + distance_words);
    }
  }
  add_atomic(sink, sum);
}
