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
#define MATS_COLD MATS_DEVICE
#define MATS_UNROLL _Pragma("unroll")
// Distance in words of the i-th word of a batch from its first: see for_each_batch.
#define MATS_WORD_STEP(i, stride) ((u64)((i) >> 1) * (stride) + ((i) & 1))
#define MATS_BATCH 4
#define MATS_WIDTH 1
#define MATS_WIDES (2 * MATS_BATCH)
#define MATS_LANE threadIdx.x
#define MATS_LANES blockDim.x
typedef u64 Wide;

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

// A Wide holds MATS_WIDTH neighbouring words: one on a GPU, a register full on a CPU. The same expressions serve both.
#if defined(MATS_HOST) || defined(MATS_SIM)
MATS_DEVICE u64 word_in(const Wide& v, u32 i) { return v[i]; }
MATS_DEVICE Wide count_up() {
  Wide v = {};
  MATS_UNROLL
  for (u32 i = 0; i < MATS_WIDTH; ++i) v[i] = i;
  return v;
}
MATS_DEVICE Wide where_equal(Wide v, u64 wanted) { return (Wide)(v == wanted); }
#else
MATS_DEVICE u64 word_in(Wide v, u32) { return v; }
MATS_DEVICE Wide count_up() { return 0; }
MATS_DEVICE Wide where_equal(Wide v, u64 wanted) { return v == wanted ? ~0ull : 0ull; }
#endif

// Is any bit of any word set?
MATS_DEVICE bool any_bit(const Wide& v) {
  u64 all = 0;
  MATS_UNROLL
  for (u32 i = 0; i < MATS_WIDTH; ++i) all |= word_in(v, i);
  return all != 0;
}

// The vectors that one lane holds at a time: contiguous on a CPU, strided by the block on a GPU (coalesced).
struct Batch {
  Wide wide[MATS_WIDES];
};
// The words of a batch on their way to the slow path. A CPU compiler would put them into memory on the fast path, too,
// were it not for `volatile`.
struct Kept {
#if defined(MATS_HOST) || defined(MATS_SIM)
  volatile
#endif
      u64 word[2 * MATS_BATCH];
};
MATS_DEVICE Kept keep(const Batch& batch) {
  Kept kept;
  MATS_UNROLL
  for (u32 i = 0; i < 2 * MATS_BATCH; ++i) kept.word[i] = word_in(batch.wide[i / MATS_WIDTH], i % MATS_WIDTH);
  return kept;
}

#if !defined(MATS_HOST) && !defined(MATS_SIM)
MATS_DEVICE void load_batch(const u64* data, u64 vector, Batch& batch) {
  MATS_UNROLL
  for (u32 k = 0; k < MATS_BATCH; ++k) {
    const vec v = load_vec(data + 2 * (vector + (u64)k * MATS_LANES));
    batch.wide[2 * k] = v.x;
    batch.wide[2 * k + 1] = v.y;
  }
}

MATS_DEVICE void store_batch(u64* data, u64 vector, const Batch& batch) {
  MATS_UNROLL
  for (u32 k = 0; k < MATS_BATCH; ++k) {
    const vec v = {batch.wide[2 * k], batch.wide[2 * k + 1]};
    store_vec(data + 2 * (vector + (u64)k * MATS_LANES), v);
  }
}

MATS_DEVICE void replace_batch(u64* data, u64 vector, const Batch& batch) { store_batch(data, vector, batch); }
MATS_DEVICE void fetch_ahead(const u64*, u64, u32) {}
#endif

// Which tiles a block takes: every gridDim-th, so that a GPU's blocks work side by side; a CPU's thread takes one
// stretch, along which its prefetchers run.
struct Share {
  u64 from, to, step;
};
MATS_DEVICE Share share_of(u64 tiles) {
#if defined(MATS_HOST)
  return {tiles * blockIdx.x / gridDim.x, tiles * (blockIdx.x + 1) / gridDim.x, 1};
#else
  return {blockIdx.x, tiles, gridDim.x};
#endif
}

// Calls BODY(vector) for the first vector of each batch of each of `tiles` tiles, upwards or downwards. Within a
// lane the order is exact; between blocks it is not: sweeps are block-ordered.
template <class Body>
MATS_DEVICE void for_each_batch(u64 tiles, u32 descending, Body body) {
  const u64 step_vectors = (u64)MATS_BATCH * MATS_LANES;
  const u64 steps = MATS_TILE_VECTORS / step_vectors;
  const Share share = share_of(tiles);
  for (u64 i = share.from; i < share.to; i += share.step) {
    const u64 tile = descending ? tiles - 1 - i : i;
    for (u64 j = 0; j < steps; ++j) {
      const u64 step = descending ? steps - 1 - j : j;
      body(tile * MATS_TILE_VECTORS + step * step_vectors + MATS_LANE);
    }
  }
}

#endif  // MATS_CUH
