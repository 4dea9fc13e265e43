// The host flavour for processors with AVX2. The standard headers come first, at the baseline: their inline functions
// must not be compiled twice with different instructions.
#define MATS_HOST
#define MATS_FIND mats_host_avx2_find
#define MATS_RUN mats_host_avx2_run
#define MATS_WIDTH 4
#include "../include/shim.hpp"
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#pragma GCC target("avx2,bmi,bmi2,popcnt")
#include "flavour.inc"
#endif
