// The kernels of mats in their grid flavour, one thread at a time, as a library for the fake driver. It is given as a
// path and not linked, so that the driver is built once and other kernels can be put in its place by a test.
#include "../../kernels/native/grid.cpp"

#define EXPORT extern "C" __attribute__((visibility("default")))

// The number of parameters of a kernel; -1 when there is none of this name.
EXPORT long fake_kernel_parameters(const char* name) {
  const mats_cpu::Kernel* kernel = mats_grid_find(name);
  return kernel ? long(kernel->parameters) : -1;
}

EXPORT void fake_kernel_run(const char* name, void* const* arguments, unsigned blocks, unsigned threads) {
  mats_grid_run(mats_grid_find(name), arguments, blocks, threads, 1);
}
