// Start-up, devices and contexts of the fake driver.
#include "fake.h"

#include <cstdio>
#include <cstring>

#define REQUIRE_DEVICE(d) FAKE_REQUIRE((d) >= 0 && (d) < fake::world().devices, CUDA_ERROR_INVALID_DEVICE)

namespace {

thread_local std::vector<CUctx_st*> stack;

// Figures of an invented accelerator; small caches and few multiprocessors keep the tests fast.
int attribute(CUdevice_attribute which, int device) {
  switch (int(which)) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: return 9;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: return 0;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: return 2;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE: return 32;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK: return 1024;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X: return 1024;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y: return 1024;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z: return 64;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X: return 2147483647;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y: return 65535;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z: return 65535;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR: return 2048;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK: return 49152;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: return 232448;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR: return 233472;
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK: return 65536;
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR: return 65536;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE: return 1 << 20;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE: return 1500000;         // kHz
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE: return 2000000;  // kHz
    case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH: return 5120;
    case CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID: return 0;
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID: return device + 1;
    case CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID: return 0;
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING: return 1;
    case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY: return 1;
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS: return 1;
    case CU_DEVICE_ATTRIBUTE_ECC_ENABLED: return 1;
    default: return 0;
  }
}

}  // namespace

CUctx_st* fake::current() { return stack.empty() ? nullptr : stack.back(); }

FAKE_API cuInit(unsigned) {
  FAKE_ENTER();
  return fake::world().init_result;
}

FAKE_API cuDriverGetVersion(int* version) {
  FAKE_ENTER();
  *version = fake::world().driver_version;
  return CUDA_SUCCESS;
}

FAKE_API cuDeviceGetCount(int* count) {
  FAKE_ENTER();
  *count = fake::world().devices;
  return CUDA_SUCCESS;
}

FAKE_API cuDeviceGet(CUdevice* device, int ordinal) {
  FAKE_ENTER();
  REQUIRE_DEVICE(ordinal);
  *device = ordinal;
  return CUDA_SUCCESS;
}

FAKE_API cuDeviceGetName(char* name, int size, CUdevice device) {
  FAKE_ENTER();
  REQUIRE_DEVICE(device);
  snprintf(name, size_t(size), "Fake GPU %d (tests)", device);
  return CUDA_SUCCESS;
}

// With zero bytes within, since a caller that reads it as text would cut it there; unique from the first byte on.
FAKE_API cuDeviceGetUuid(CUuuid* uuid, CUdevice device) {
  FAKE_ENTER();
  REQUIRE_DEVICE(device);
  const int first = fake::world().same_uuids ? 0 : device;
  const unsigned char bytes[16] = {(unsigned char)(0xf0 + first), 0xa0, 0, 0xc0, 0xde, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9,
                                   (unsigned char)device};
  memcpy(uuid, bytes, sizeof bytes);
  return CUDA_SUCCESS;
}

FAKE_API cuDeviceTotalMem(size_t* bytes, CUdevice device) {
  FAKE_ENTER();
  REQUIRE_DEVICE(device);
  *bytes = fake::world().device[device].total;
  return CUDA_SUCCESS;
}

FAKE_API cuDeviceGetPCIBusId(char* id, int size, CUdevice device) {
  FAKE_ENTER();
  REQUIRE_DEVICE(device);
  snprintf(id, size_t(size), "0000:%02x:00.0", device + 1);
  return CUDA_SUCCESS;
}

FAKE_API cuDeviceGetByPCIBusId(CUdevice* device, const char* id) {
  FAKE_ENTER();
  unsigned domain = 0, bus = 0, slot = 0;
  const bool full = sscanf(id, "%x:%x:%x", &domain, &bus, &slot) == 3;
  FAKE_REQUIRE(full || sscanf(id, "%x:%x", &bus, &slot) == 2, CUDA_ERROR_INVALID_VALUE);
  REQUIRE_DEVICE(int(bus) - 1);
  *device = int(bus) - 1;
  return CUDA_SUCCESS;
}

FAKE_API cuDeviceGetAttribute(int* value, CUdevice_attribute which, CUdevice device) {
  FAKE_ENTER();
  REQUIRE_DEVICE(device);
  *value = attribute(which, device);
  return CUDA_SUCCESS;
}

FAKE_API cuDeviceCanAccessPeer(int* yes, CUdevice device, CUdevice peer) {
  FAKE_ENTER();
  REQUIRE_DEVICE(device);
  REQUIRE_DEVICE(peer);
  *yes = device != peer && !fake::world().apart.count({device, peer});
  return CUDA_SUCCESS;
}

FAKE_API cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  FAKE_ENTER();
  REQUIRE_DEVICE(device);
  ++fake::world().primary[device].holders;
  *context = &fake::world().primary[device];
  return CUDA_SUCCESS;
}

FAKE_API cuDevicePrimaryCtxRelease(CUdevice device) {
  FAKE_ENTER();
  REQUIRE_DEVICE(device);
  CUctx_st& context = fake::world().primary[device];
  if (context.holders) --context.holders;
  return CUDA_SUCCESS;
}

FAKE_API cuCtxGetCurrent(CUcontext* context) {
  FAKE_ENTER();
  *context = fake::current();
  return CUDA_SUCCESS;
}

FAKE_API cuCtxSetCurrent(CUcontext context) {
  FAKE_ENTER();
  if (!stack.empty()) stack.pop_back();
  if (context) stack.push_back(context);
  return CUDA_SUCCESS;
}

FAKE_API cuCtxGetDevice(CUdevice* device) {
  FAKE_ENTER();
  FAKE_CONTEXT(context);
  *device = context->device;
  return CUDA_SUCCESS;
}

FAKE_API cuCtxSynchronize() {
  FAKE_ENTER();
  FAKE_CONTEXT(context);
  fake::wait_for(context->device, "cuCtxSynchronize");
  return fake::world().device[context->device].sticky;
}

FAKE_API cuCtxEnablePeerAccess(CUcontext peer, unsigned) {
  FAKE_ENTER();
  FAKE_CONTEXT(context);
  FAKE_REQUIRE(peer && peer != context, CUDA_ERROR_INVALID_CONTEXT);
  FAKE_REQUIRE(!fake::world().apart.count({context->device, peer->device}), CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
  FAKE_REQUIRE(!context->peers[peer->device], CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
  context->peers[peer->device] = true;
  return CUDA_SUCCESS;
}

FAKE_API cuCtxDisablePeerAccess(CUcontext peer) {
  FAKE_ENTER();
  FAKE_CONTEXT(context);
  FAKE_REQUIRE(peer && context->peers[peer->device], CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
  context->peers[peer->device] = false;
  return CUDA_SUCCESS;
}

// The compiler (NVRTC) asks the driver for a table of undocumented functions and does without when there is none.
FAKE_API cuGetExportTable(const void** table, const CUuuid*) {
  FAKE_ENTER();
  *table = nullptr;
  return CUDA_ERROR_NOT_FOUND;
}
