// CUDA on a CPU: just enough of the language for the kernels of this folder, in three flavours (see mats.cuh).
// Standard headers only; included before any per-function instruction set is chosen.
#ifndef MATS_SHIM_HPP
#define MATS_SHIM_HPP

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <thread>
#include <type_traits>
#include <ctime>
#include <utility>
#include <vector>
#if defined(__SSE2__)
#include <emmintrin.h>
#include <x86intrin.h>
#endif

typedef unsigned int u32;
typedef unsigned long long u64;

#define MATS_DEVICE static inline
#define MATS_SLOW static __attribute__((noinline))

struct Index3 {
  unsigned x, y, z;
};
// One of each a CPU thread; a kernel reads them as it would on a GPU.
static thread_local Index3 threadIdx{0, 0, 0}, blockIdx{0, 0, 0}, blockDim{1, 1, 1}, gridDim{1, 1, 1};

#define MATS_COLD static __attribute__((noinline, cold))
#define MATS_UNROLL _Pragma("GCC unroll 32")
#define MATS_ROLLED
#if defined(MATS_GRID)
#define MATS_WORD_STEP(i, stride) (static_cast<u64>((i) >> 1) * (stride) + ((i) & 1))
#define MATS_BATCH 4
#define MATS_WIDTH 1
#define MATS_LANE threadIdx.x
#define MATS_LANES blockDim.x
typedef u64 Wide;
#else
// One lane holds 256 contiguous bytes: whole cache lines, in as many registers as fit.
#define MATS_BATCH 16
#ifndef MATS_WIDTH
#define MATS_WIDTH 2
#endif
#define MATS_WORD_STEP(i, stride) (i)
#define MATS_LANE 0u
#define MATS_LANES 1u
#define MATS_PREFETCH_WORDS 512
typedef u64 Wide __attribute__((vector_size(8 * MATS_WIDTH)));
#endif
#define MATS_WIDES (2 * MATS_BATCH / MATS_WIDTH)

struct vec {
  u64 x, y;
};

// ---- the launch table -------------------------------------------------------------------------------------------

namespace mats_cpu {

using Call = void (*)(void* const* arguments);

struct Kernel {
  const char* name;
  Call call;
  unsigned parameters;
  Kernel* next;
};

static Kernel*& first_kernel() {
  static Kernel* first = nullptr;
  return first;
}

struct Registrar {
  Kernel kernel;
  Registrar(const char* name, Call call, unsigned parameters) : kernel{name, call, parameters, first_kernel()} {
    first_kernel() = &kernel;
  }
};

static inline const Kernel* find_kernel(const char* name) {
  for (const Kernel* k = first_kernel(); k; k = k->next)
    if (!std::strcmp(k->name, name)) return k;
  return nullptr;
}

template <class... A, std::size_t... I>
static inline void unpack(void (*function)(A...), void* const* arguments, std::index_sequence<I...>) {
  function(*static_cast<std::remove_reference_t<A>*>(arguments[I])...);
}

template <class... A>
static inline void unpack(void (*function)(A...), void* const* arguments) {
  unpack(function, arguments, std::index_sequence_for<A...>());
}

template <class... A>
constexpr unsigned count_parameters(void (*)(A...)) {
  return sizeof...(A);
}

// Runs blocks x threads on `workers` CPU threads; a worker takes every workers-th CUDA thread. Barriers are not
// offered: a kernel that needs one does not compile here.
static inline void run(const Kernel& kernel, void* const* arguments, unsigned blocks, unsigned threads,
                       unsigned workers) {
  const auto work = [&](unsigned worker) {
    gridDim = {blocks, 1, 1};
    blockDim = {threads, 1, 1};
    const u64 total = static_cast<u64>(blocks) * threads;
    for (u64 i = worker; i < total; i += workers) {
      blockIdx = {static_cast<unsigned>(i / threads), 0, 0};
      threadIdx = {static_cast<unsigned>(i % threads), 0, 0};
      kernel.call(arguments);
    }
  };
  std::vector<std::thread> others;
  for (unsigned w = 1; w < workers; ++w) others.emplace_back(work, w);
  work(0);
  for (std::thread& other : others) other.join();
}

}  // namespace mats_cpu

#define MATS_KERNEL(NAME, ...)                                                                    \
  static void NAME(__VA_ARGS__);                                                                  \
  static mats_cpu::Registrar register_##NAME(                                                     \
      #NAME, [](void* const* arguments) { mats_cpu::unpack(NAME, arguments); },                   \
      mats_cpu::count_parameters(NAME));                                                          \
  static void NAME(__VA_ARGS__)

// ---- memory -----------------------------------------------------------------------------------------------------

MATS_DEVICE u64 add_atomic(u64* p, u64 v) { return __atomic_fetch_add(p, v, __ATOMIC_RELAXED); }
MATS_DEVICE u32 lowest_bit(u64 v) { return static_cast<u32>(__builtin_ctzll(v)); }
MATS_DEVICE u32 count_bits(u64 v) { return static_cast<u32>(__builtin_popcountll(v)); }
MATS_DEVICE u32 multiprocessor() { return blockIdx.x; }

#if defined(MATS_SIM)

#include "fault_model.hpp"

MATS_DEVICE vec load_vec(const u64* p) {
  vec v;
  mats_sim::current->read(p, &v.x, 2);
  return v;
}
MATS_DEVICE void store_vec(u64* p, vec v) { mats_sim::current->write(p, &v.x, 2); }
MATS_DEVICE u64 load_word(const u64* p) {
  u64 v;
  mats_sim::current->read(p, &v, 1);
  return v;
}
MATS_DEVICE void store_word(u64* p, u64 v) { mats_sim::current->write(p, &v, 1); }
MATS_DEVICE u64 load_uncached(const u64* p) {
  mats_sim::current->activate(p);
  return load_word(p);
}
MATS_DEVICE void finish_stores() {}

// The clocks are the model's: they advance with each of these loads.
MATS_DEVICE u64 load_chained(const u64* p) { return mats_sim::current->walk(p, false); }
MATS_DEVICE u64 load_near(const u64* p) { return mats_sim::current->walk(p, true); }
MATS_DEVICE u64 read_cycles() { return static_cast<u64>(mats_sim::current->timing.cycles); }
MATS_DEVICE u64 read_cycles_after(u64) { return read_cycles(); }
MATS_DEVICE u64 read_nanoseconds() { return static_cast<u64>(mats_sim::current->timing.nanoseconds()); }
MATS_DEVICE void evict_line(const u64*) {}
MATS_DEVICE u64 can_evict() { return 0; }

#else

// Non-temporal: the line goes to memory without being read first and without staying in the cache.
MATS_DEVICE void stream_pair(u64* p, const u64* pair) {
#if defined(__SSE2__) && defined(MATS_HOST)
  _mm_stream_si128(reinterpret_cast<__m128i*>(p), _mm_loadu_si128(reinterpret_cast<const __m128i*>(pair)));
#else
  p[0] = pair[0];
  p[1] = pair[1];
#endif
}
MATS_DEVICE void store_vec(u64* p, vec v) { stream_pair(p, &v.x); }
MATS_DEVICE vec load_vec(const u64* p) { return {p[0], p[1]}; }
MATS_DEVICE u64 load_word(const u64* p) { return *static_cast<const volatile u64*>(p); }
MATS_DEVICE void store_word(u64* p, u64 v) { *static_cast<volatile u64*>(p) = v; }

// Evicts the line first, so that the load reaches the memory.
MATS_DEVICE u64 load_uncached(const u64* p) {
#if defined(__SSE2__)
  _mm_clflush(p);
  _mm_mfence();
#endif
  return load_word(p);
}

MATS_DEVICE void finish_stores() {
#if defined(__SSE2__) && defined(MATS_HOST)
  _mm_sfence();
#endif
}

MATS_DEVICE u64 load_chained(const u64* p) { return load_word(p); }
MATS_DEVICE u64 load_near(const u64* p) { return load_word(p); }
MATS_DEVICE u64 read_nanoseconds() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<u64>(t.tv_sec) * 1000000000ull + static_cast<u64>(t.tv_nsec);
}
// Ticks of the processor's constant clock, which is not that of its cores; nanoseconds where there is none. The fences
// hold it between the loads ahead of it and those behind it.
MATS_DEVICE u64 read_cycles() {
#if defined(__SSE2__)
  _mm_lfence();
  const u64 t = __rdtsc();
  _mm_lfence();
  return t;
#else
  return read_nanoseconds();
#endif
}
MATS_DEVICE u64 read_cycles_after(u64 value) {
  asm volatile("" ::"r"(value) : "memory");
  return read_cycles();
}
MATS_DEVICE void evict_line(const u64* p) {
#if defined(__SSE2__)
  _mm_clflush(p);
#else
  static_cast<void>(p);
#endif
}
MATS_DEVICE u64 can_evict() {
#if defined(__SSE2__)
  _mm_mfence();
  return 1;
#else
  return 0;
#endif
}

#endif

#if !defined(MATS_GRID)
// Templates, because Batch is complete only in mats.cuh. A batch is aligned: chunks start on a page.
template <class B>
MATS_DEVICE void load_batch(const u64* data, u64 vector, B& batch) {
#if defined(MATS_SIM)
  mats_sim::current->read(data + 2 * vector, reinterpret_cast<u64*>(batch.wide), 2 * MATS_BATCH);
#else
  const Wide* p = reinterpret_cast<const Wide*>(data + 2 * vector);
  MATS_UNROLL
  for (u32 k = 0; k < MATS_WIDES; ++k) batch.wide[k] = p[k];
#endif
}

template <class B>
MATS_DEVICE void store_batch(u64* data, u64 vector, const B& batch) {
#if defined(MATS_SIM)
  mats_sim::current->write(data + 2 * vector, reinterpret_cast<const u64*>(batch.wide), 2 * MATS_BATCH);
#else
  u64 words[2 * MATS_BATCH];
  __builtin_memcpy(words, batch.wide, sizeof words);
  MATS_UNROLL
  for (u32 k = 0; k < MATS_BATCH; ++k) stream_pair(data + 2 * (vector + k), words + 2 * k);
#endif
}

// Over a batch that was just loaded: its lines are in the cache, so that an ordinary store costs no read of its own,
// and a streaming one would first have to push the line out.
template <class B>
MATS_DEVICE void replace_batch(u64* data, u64 vector, const B& batch) {
#if defined(MATS_SIM)
  store_batch(data, vector, batch);
#else
  Wide* p = reinterpret_cast<Wide*>(data + 2 * vector);
  MATS_UNROLL
  for (u32 k = 0; k < MATS_WIDES; ++k) p[k] = batch.wide[k];
#endif
}

// Asks the memory for the batch that lies 4 KiB ahead in the direction of the sweep.
MATS_DEVICE void fetch_ahead(const u64* data, u64 vector, u32 descending) {
#if !defined(MATS_SIM)
  const u64 at = 2 * vector, ahead = descending ? at - MATS_PREFETCH_WORDS : at + MATS_PREFETCH_WORDS;
  for (u32 line = 0; line < 4; ++line) __builtin_prefetch(data + ahead + 8 * line);
#else
  (void)data, (void)vector, (void)descending;
#endif
}
#endif

#endif  // MATS_SHIM_HPP
