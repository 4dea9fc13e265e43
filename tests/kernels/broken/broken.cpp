// The grid flavour of broken.cu, as kernels/native/grid.cpp is that of the real kernels.
#define MATS_GRID
#include "broken.cu"

const mats_cpu::Kernel* broken_find(const char* name) { return mats_cpu::find_kernel(name); }

void broken_run(const mats_cpu::Kernel* kernel, void* const* arguments, unsigned blocks, unsigned threads,
                unsigned workers) {
  mats_cpu::run(*kernel, arguments, blocks, threads, workers);
}
