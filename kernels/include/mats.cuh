// The seam: every kernel touches memory through the helpers of this file only, so that one source serves the GPU,
// the CPU build and the simulator. Header-free, because NVRTC has no search path.
//
//   GPU        inline PTX; a block's threads stride within a tile
//   MATS_HOST  the machine's own memory; one lane runs a tile, vectorised, with non-temporal stores
//   MATS_SIM   as MATS_HOST, every access passes the fault model
//   MATS_GRID  the GPU's thread layout on CPU threads: for sanitizers and for the fake driver of the tests
#ifndef MATS_CUH
#define MATS_CUH

#if defined(MATS_HOST) || defined(MATS_SIM) || defined(MATS_GRID)
#include "shim.hpp"
#else

typedef unsigned int u32;
typedef unsigned long long u64;

#define MATS_DEVICE static __device__ __forceinline__
#define MATS_SLOW static __device__ __noinline__
// 256 threads a block at most: a tile of 64 KiB is then four steps of four 16-byte vectors a thread.
#define MATS_KERNEL(NAME, ...) extern "C" __global__ void __launch_bounds__(256) NAME(__VA_ARGS__)
#define MATS_UNROLL _Pragma("unroll")
// Distance in words of the i-th word of a batch from its first: see for_each_batch.
#define MATS_WORD_STEP(i, stride) ((u64)((i) >> 1) * (stride) + ((i) & 1))
#define MATS_BATCH 4
#define MATS_LANE threadIdx.x
#define MATS_LANES blockDim.x

struct vec {
  u64 x, y;
};

// .cg: cached in L2 only; a sweep larger than L2 therefore comes from memory.
MATS_DEVICE vec load_vec(const u64* p) {
  vec v;
  asm volatile("ld.global.cg.v2.u64 {%0, %1}, [%2];" : "=l"(v.x), "=l"(v.y) : "l"(p) : "memory");
  return v;
}

MATS_DEVICE void store_vec(u64* p, vec v) {
  asm volatile("st.global.cg.v2.u64 [%0], {%1, %2};" ::"l"(p), "l"(v.x), "l"(v.y) : "memory");
}

// .cv / .wt: not served from L1, not held back.
MATS_DEVICE u64 load_word(const u64* p) {
  u64 v;
  asm volatile("ld.global.cv.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
  return v;
}

MATS_DEVICE void store_word(u64* p, u64 v) {
  asm volatile("st.global.wt.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}

// A load that must reach the memory cell: on a GPU the host evicts L2 by a sweep before, here it is load_word.
MATS_DEVICE u64 load_uncached(const u64* p) { return load_word(p); }

MATS_DEVICE u64 add_atomic(u64* p, u64 v) { return atomicAdd(p, v); }
MATS_DEVICE u32 lowest_bit(u64 v) { return (u32)__ffsll((long long)v) - 1u; }
MATS_DEVICE u32 count_bits(u64 v) { return (u32)__popcll(v); }
MATS_DEVICE u32 multiprocessor() {
  u32 id;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(id));
  return id;
}
MATS_DEVICE void finish_stores() {}

#endif  // GPU

// A tile is 64 KiB and contiguous; a page of the report is 2 MiB, the page size of device memory.
#define MATS_TILE_VECTORS 4096ull
#define MATS_TILE_WORDS (2 * MATS_TILE_VECTORS)
#define MATS_PAGE_SHIFT 18

// The vectors that one lane holds at a time: contiguous on a CPU, strided by the block on a GPU (coalesced).
struct Batch {
  u64 word[2 * MATS_BATCH];
};

#if !defined(MATS_HOST) && !defined(MATS_SIM)
MATS_DEVICE void load_batch(const u64* data, u64 vector, Batch& batch) {
  MATS_UNROLL
  for (u32 k = 0; k < MATS_BATCH; ++k) {
    const vec v = load_vec(data + 2 * (vector + (u64)k * MATS_LANES));
    batch.word[2 * k] = v.x;
    batch.word[2 * k + 1] = v.y;
  }
}

MATS_DEVICE void store_batch(u64* data, u64 vector, const Batch& batch) {
  MATS_UNROLL
  for (u32 k = 0; k < MATS_BATCH; ++k) {
    const vec v = {batch.word[2 * k], batch.word[2 * k + 1]};
    store_vec(data + 2 * (vector + (u64)k * MATS_LANES), v);
  }
}
#endif

// Calls BODY(vector) for the first vector of each batch of each of `tiles` tiles, upwards or downwards. Within a
// lane the order is exact; between blocks it is not: sweeps are block-ordered.
template <class Body>
MATS_DEVICE void for_each_batch(u64 tiles, u32 descending, Body body) {
  const u64 step_vectors = (u64)MATS_BATCH * MATS_LANES;
  const u64 steps = MATS_TILE_VECTORS / step_vectors;
  for (u64 i = blockIdx.x; i < tiles; i += gridDim.x) {
    const u64 tile = descending ? tiles - 1 - i : i;
    for (u64 j = 0; j < steps; ++j) {
      const u64 step = descending ? steps - 1 - j : j;
      body(tile * MATS_TILE_VECTORS + step * step_vectors + MATS_LANE);
    }
  }
}

#endif  // MATS_CUH
