// Modules and launches of the fake driver.
#include <dlfcn.h>
#include <setjmp.h>
#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "cubin.h"
#include "fake.h"

struct CUmod_st {
  std::string image;
};

struct CUfunc_st {
  std::string name;
  size_t parameters;
};

namespace {

// The CPU builds, from the shared library that MATS_FAKE_CUDA_KERNELS names.
struct Kernels {
  long (*parameters)(const char* name) = nullptr;
  void (*run)(const char* name, void* const* arguments, unsigned blocks, unsigned threads) = nullptr;
};

const Kernels& cpu_builds() {
  static const Kernels kernels = [] {
    Kernels found;
    const char* path = getenv("MATS_FAKE_CUDA_KERNELS");
    void* library = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : nullptr;
    if (library) {
      found.parameters = reinterpret_cast<long (*)(const char*)>(dlsym(library, "fake_kernel_parameters"));
      found.run = reinterpret_cast<void (*)(const char*, void* const*, unsigned, unsigned)>(
          dlsym(library, "fake_kernel_run"));
    }
    if (!found.parameters || !found.run) {
      fprintf(stderr, "fake CUDA driver: no CPU kernels: %s\n", path ? dlerror() : "MATS_FAKE_CUDA_KERNELS is not set");
      abort();
    }
    return found;
  }();
  return kernels;
}

CUresult load(CUmodule* module, const void* image) {
  FAKE_CONTEXT(context);
  const size_t size = cubin::size(image);
  FAKE_REQUIRE(size > 0, CUDA_ERROR_INVALID_IMAGE);
  *module = new CUmod_st{std::string(static_cast<const char*>(image), size)};
  ++fake::world().modules;
  return CUDA_SUCCESS;
}

// A kernel is found only when the image compiled for the GPU has it, and when that and the CPU build take as many
// parameters.
CUresult function(CUfunction* result, CUmodule module, const char* name) {
  const std::optional<std::vector<size_t>> sizes = cubin::parameter_sizes(module->image, name);
  FAKE_REQUIRE(sizes, CUDA_ERROR_NOT_FOUND);
  const long parameters = cpu_builds().parameters(name);
  if (parameters != long(sizes->size())) {
    fprintf(stderr, "fake CUDA driver: kernel %s takes %zu parameters on the GPU, %ld in the CPU build\n", name,
            sizes->size(), parameters);
    return CUDA_ERROR_INVALID_IMAGE;
  }
  fake::world().parameter_sizes[name] = *sizes;
  *result = new CUfunc_st{name, sizes->size()};
  return CUDA_SUCCESS;
}

// A kernel that leaves its memory meets a guard page. As on a GPU, the launch then fails with an illegal address and
// the context answers nothing else; a fault anywhere else goes where it would have gone.
thread_local sigjmp_buf escape;
thread_local bool in_kernel = false;
struct sigaction earlier_segv, earlier_bus;

void on_fault(int signal, siginfo_t* info, void* context) {
  if (in_kernel) {
    in_kernel = false;
    siglongjmp(escape, fake::is_guard(uintptr_t(info->si_addr)) ? CUDA_ERROR_ILLEGAL_ADDRESS
                                                                : CUDA_ERROR_LAUNCH_FAILED);
  }
  const struct sigaction& earlier = signal == SIGBUS ? earlier_bus : earlier_segv;
  if (earlier.sa_flags & SA_SIGINFO) {
    earlier.sa_sigaction(signal, info, context);
  } else if (earlier.sa_handler != SIG_DFL && earlier.sa_handler != SIG_IGN) {
    earlier.sa_handler(signal);
  } else {
    sigaction(signal, &earlier, nullptr);  // the instruction runs again and ends the process as it should
  }
}

void watch_faults() {
  struct sigaction action = {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  struct sigaction before;
  sigaction(SIGSEGV, nullptr, &before);
  if (before.sa_flags & SA_SIGINFO && before.sa_sigaction == on_fault) return;
  sigaction(SIGSEGV, &action, &earlier_segv);
  sigaction(SIGBUS, &action, &earlier_bus);
}

CUresult run(const std::string& kernel, const std::vector<std::string>& values, unsigned blocks, unsigned threads,
             int device) {
  std::vector<void*> places;
  for (const std::string& value : values) places.push_back(const_cast<char*>(value.data()));
  watch_faults();
  fake::close_to(device, values);
  const int fault = sigsetjmp(escape, 1);
  if (!fault) {
    in_kernel = true;
    cpu_builds().run(kernel.c_str(), places.data(), blocks, threads);
    in_kernel = false;
  }
  fake::open_again(device, values);
  return CUresult(fault);
}

bool as_many_as_it_takes(const CUfunc_st& f, void** arguments) {
  const size_t passed = arguments ? fake::requested(arguments) / sizeof(void*) : 0;
  if (passed == f.parameters) return true;
  fprintf(stderr, "fake CUDA driver: kernel %s takes %zu arguments, %zu were passed\n", f.name.c_str(), f.parameters,
          passed);
  return false;
}

// What a launch is said to take beside its own start: the time for the whole of the largest piece of memory that one of
// its arguments points into, at the speed of the way to it where it is another device's.
double seconds_of(const std::vector<std::string>& arguments, int device) {
  double longest = 0;
  for (const std::string& argument : arguments) {
    if (argument.size() != sizeof(uintptr_t)) continue;
    uintptr_t value;
    memcpy(&value, argument.data(), sizeof value);
    const fake::Allocation* found = fake::find(value);
    if (!found || found->kind == fake::Kind::host || found->kind == fake::Kind::registered) continue;
    const bool own = found->device == device;
    longest = std::max(longest, own ? fake::seconds_for(found->size)
                                    : fake::seconds_between({device, found->device}, true, found->size));
  }
  return longest;
}

// A fault of the kernel is seen by the next call, as on a GPU, which has not run the kernel when the launch returns. The
// arguments are taken now and used when the kernel runs.
CUresult launch(CUfunction f, unsigned blocks, unsigned threads, CUstream stream, void** arguments) {
  FAKE_CONTEXT(context);
  FAKE_REQUIRE(f, CUDA_ERROR_INVALID_HANDLE);
  FAKE_REQUIRE(blocks && threads && threads <= 1024, CUDA_ERROR_INVALID_VALUE);
  FAKE_REQUIRE(as_many_as_it_takes(*f, arguments), CUDA_ERROR_INVALID_VALUE);
  fake::world().last_grid = blocks;
  std::vector<std::string> values;
  for (const size_t size : fake::world().parameter_sizes[f->name])
    values.emplace_back(static_cast<const char*>(arguments[values.size()]), size);
  const int device = context->device;
  fake::submit(fake::stream_of(stream, device), [=, name = f->name](double& clock) {
    fake::world().device[device].sticky = run(name, values, blocks, threads, device);
    clock += fake::world().launch_seconds + seconds_of(values, device);
    return true;
  });
  return CUDA_SUCCESS;
}

}  // namespace

FAKE_API cuModuleLoadData(CUmodule* module, const void* image) {
  FAKE_ENTER();
  return load(module, image);
}

FAKE_API cuModuleUnload(CUmodule module) {
  FAKE_ENTER();
  delete module;
  --fake::world().modules;
  return CUDA_SUCCESS;
}

FAKE_API cuModuleGetFunction(CUfunction* result, CUmodule module, const char* name) {
  FAKE_ENTER();
  FAKE_CONTEXT(context);
  return function(result, module, name);
}

FAKE_API cuFuncGetAttribute(int* value, CUfunction_attribute which, CUfunction) {
  FAKE_ENTER();
  *value = which == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ? 1024 : which == CU_FUNC_ATTRIBUTE_NUM_REGS ? 32 : 0;
  return CUDA_SUCCESS;
}

FAKE_API cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction, int threads, size_t) {
  FAKE_ENTER();
  FAKE_REQUIRE(threads > 0, CUDA_ERROR_INVALID_VALUE);
  *blocks = 2048 / threads;
  return CUDA_SUCCESS;
}

// One dimension only, and no dynamic shared memory: more the kernels of mats do not use.
FAKE_API cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                        unsigned shared, CUstream stream, void** arguments, void**) {
  FAKE_ENTER();
  FAKE_REQUIRE(gy == 1 && gz == 1 && by == 1 && bz == 1 && !shared, CUDA_ERROR_NOT_SUPPORTED);
  return launch(f, gx, bx, stream, arguments);
}
