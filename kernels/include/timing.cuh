// Clocks and the loads they time. A clock read behind a load does not wait for it: the compiler lets it run at once,
// even where later arithmetic joins the two. `read_cycles_after` waits, because a branch on the loaded value must be
// decided first; tests/kernels reads the machine code of every architecture for it.
#ifndef MATS_TIMING_CUH
#define MATS_TIMING_CUH

#include "mats.cuh"

// Layout of a walk's report, in 64-bit words.
#define MATS_WALK_CLAIMED 0      // blocks that found themselves on the wanted multiprocessor
#define MATS_WALK_CYCLES 1
#define MATS_WALK_NANOSECONDS 2
#define MATS_WALK_END 3          // the word offset where the walk ended: what it should be is known
#define MATS_WALK_SUM 4          // keeps the reads that warm the address translation alive
#define MATS_WALK_WORDS 8

#if !defined(MATS_HOST) && !defined(MATS_SIM) && !defined(MATS_GRID)

#define MATS_ROLLED _Pragma("unroll 1")

// .cg: not through L1; .ca: through it.
MATS_DEVICE u64 load_chained(const u64* p) {
  u64 v;
  asm volatile("ld.global.cg.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
  return v;
}
MATS_DEVICE u64 load_near(const u64* p) {
  u64 v;
  asm volatile("ld.global.ca.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
  return v;
}
MATS_DEVICE u64 read_cycles() {
  u64 t;
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(t)::"memory");
  return t;
}
// The value compared with is one that no chain holds: its word offsets are smaller.
MATS_DEVICE u64 read_cycles_after(u64 value) {
  u64 t;
  asm volatile(
      "{\n\t.reg .pred p;\n\tsetp.eq.u64 p, %1, 0xdeadc3a5;\n\t@p trap;\n\tmov.u64 %0, %%clock64;\n\t}"
      : "=l"(t)
      : "l"(value)
      : "memory");
  return t;
}
MATS_DEVICE u64 read_nanoseconds() {
  u64 t;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t)::"memory");
  return t;
}
MATS_DEVICE void evict_line(const u64*) {}
MATS_DEVICE u64 can_evict() { return 0; }

#endif

#endif  // MATS_TIMING_CUH
