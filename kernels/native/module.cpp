// The module mats.devices._native: a C interface that Python calls through ctypes (which lets other threads run).
// Python.h is needed only so that setuptools can build and ship it as an extension.
#include <Python.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

#include "../include/fault_model.hpp"

namespace mats_cpu {
struct Kernel;
}
#define MATS_FLAVOUR(NAME)                            \
  const mats_cpu::Kernel* NAME##_find(const char*);   \
  void NAME##_run(const mats_cpu::Kernel*, void* const*, unsigned, unsigned, unsigned);
MATS_FLAVOUR(mats_host_base)
MATS_FLAVOUR(mats_sim)
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define MATS_HAVE_AVX2
MATS_FLAVOUR(mats_host_avx2)
#endif
void mats_sim_launch(mats_sim::Model*, const mats_cpu::Kernel*, void* const*, unsigned);

#define EXPORT extern "C" __attribute__((visibility("default")))

static double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// ---- host -------------------------------------------------------------------------------------------------------

// Gives the duration in seconds, or -1 when there is no such kernel. Arguments are pointers to 8-byte slots.
EXPORT double mats_host_launch(const char* name, void* const* arguments, unsigned workers) {
  const mats_cpu::Kernel* kernel = nullptr;
#ifdef MATS_HAVE_AVX2
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2")) {
    if (!(kernel = mats_host_avx2_find(name))) return -1;
    const double start = seconds();
    mats_host_avx2_run(kernel, arguments, workers, 1, workers);
    return seconds() - start;
  }
#endif
  if (!(kernel = mats_host_base_find(name))) return -1;
  const double start = seconds();
  mats_host_base_run(kernel, arguments, workers, 1, workers);
  return seconds() - start;
}

EXPORT const char* mats_host_instructions() {
#ifdef MATS_HAVE_AVX2
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2")) return "AVX2";
#endif
  return "baseline";
}

// `size` bytes (a multiple of 2 MiB) on a 2 MiB boundary, each page touched; null when refused. `locked` tells whether
// the pages are kept from being swapped out.
EXPORT void* mats_host_allocate(size_t size, int* locked) {
  const size_t page = 2u << 20;
  char* raw = static_cast<char*>(
      mmap(nullptr, size + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  if (raw == MAP_FAILED) return nullptr;
  char* base = reinterpret_cast<char*>((reinterpret_cast<size_t>(raw) + page - 1) / page * page);
  if (base > raw) munmap(raw, static_cast<size_t>(base - raw));
  char* end = raw + size + page;
  if (end > base + size) munmap(base + size, static_cast<size_t>(end - (base + size)));
#ifdef MADV_HUGEPAGE
  madvise(base, size, MADV_HUGEPAGE);
#endif
  *locked = mlock(base, size) == 0;
  const size_t step = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  for (size_t i = 0; i < size; i += step) const_cast<volatile char*>(base)[i] = 0;
  return base;
}

EXPORT void mats_host_free(void* p, size_t size) { munmap(p, size); }

// ---- simulator --------------------------------------------------------------------------------------------------

EXPORT void* mats_sim_create(const mats_sim::Geometry* geometry, const mats_sim::Fault* faults, unsigned count,
                             unsigned long long seed) {
  return new mats_sim::Model(*geometry, faults, count, seed);
}

EXPORT void mats_sim_destroy(void* model) { delete static_cast<mats_sim::Model*>(model); }

EXPORT void mats_sim_map(void* model, unsigned long long* base, size_t size, const unsigned long long* pages) {
  static_cast<mats_sim::Model*>(model)->map(base, size, pages);
}

EXPORT void mats_sim_unmap(void* model, const unsigned long long* base) {
  static_cast<mats_sim::Model*>(model)->unmap(base);
}

EXPORT void mats_sim_time(void* model, double now) { static_cast<mats_sim::Model*>(model)->now = now; }

// How many seconds a load of a chain takes from memory that is not this card's own.
EXPORT void mats_sim_away(void* model, double seconds) { static_cast<mats_sim::Model*>(model)->timing.away = seconds; }

// Gives the bytes moved, or -1 when there is no such kernel.
EXPORT long long mats_sim_call(void* model, const char* name, void* const* arguments, unsigned blocks) {
  const mats_cpu::Kernel* kernel = mats_sim_find(name);
  if (!kernel) return -1;
  mats_sim::Model* m = static_cast<mats_sim::Model*>(model);
  mats_sim_launch(m, kernel, arguments, blocks);
  return static_cast<long long>(m->bytes_read + m->bytes_written);
}

// Simulated seconds that the walks of the latest launch took.
EXPORT double mats_sim_walked(void* model) { return static_cast<mats_sim::Model*>(model)->timing.nanoseconds() / 1e9; }

// Reads `words` words through the faults, as a copy to the host would: no multiprocessor takes part.
EXPORT void mats_sim_fetch(void* model, const unsigned long long* from, unsigned long long* out, size_t words) {
  mats_sim::Model* m = static_cast<mats_sim::Model*>(model);
  const unsigned* unit = m->unit;
  m->unit = nullptr;
  for (size_t done = 0; done < words; done += 32)
    m->read(from + done, out + done, static_cast<unsigned>(words - done < 32 ? words - done : 32));
  m->unit = unit;
}

// channel, bank, row, column of a physical address: for tests and for plans that name a place.
EXPORT void mats_sim_place(void* model, unsigned long long physical, unsigned long long* out) {
  const mats_sim::Place at = static_cast<mats_sim::Model*>(model)->place(physical);
  out[0] = at.channel;
  out[1] = at.bank;
  out[2] = at.row;
  out[3] = at.column;
}

static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_native", "Kernels built for this machine; see mats.devices.host",
                                 -1, nullptr, nullptr, nullptr, nullptr, nullptr};

PyMODINIT_FUNC PyInit__native(void) { return PyModule_Create(&definition); }
