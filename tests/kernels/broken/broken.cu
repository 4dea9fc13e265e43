// Kernels that are wrong on purpose, each in one way: a sanitizer that stays silent on them proves nothing.
#include "../../../kernels/include/mats.cuh"

// Writes one vector past the end of `data`.
MATS_KERNEL(write_past_the_end, u64 tiles, u64* data) {
  if (blockIdx.x == 0 && MATS_LANE == 0) store_vec(data + tiles * MATS_TILE_WORDS, vec{1, 1});
}

// Counts without an atomic: two threads may read the same value.
MATS_KERNEL(count_without_atomic, u64 tiles, u64* sink) {
  for (u64 i = blockIdx.x; i < tiles; i += gridDim.x) sink[0] = sink[0] + 1;
}

// Shifts a 64-bit word by 64 and more.
MATS_KERNEL(shift_too_far, u64 tiles, u64* sink) { sink[0] = tiles << (tiles + 62); }
