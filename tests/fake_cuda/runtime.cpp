// The calls of the CUDA runtime that CuPy's runtime module makes, over the fake driver. What is not here answers "not
// supported"; build.py makes those stubs from the list of what the module wants.
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstring>

#define RUNTIME extern "C" __attribute__((visibility("default"))) cudaError_t CUDARTAPI
// A call that needs a context makes the primary one of the thread's device current.
#define RUNTIME_CONTEXT() \
  if (const CUresult failed = ensure_context()) return give(failed)

namespace {

thread_local int chosen = 0;
thread_local cudaError_t last = cudaSuccess;

// The numbers of both enumerations agree.
cudaError_t give(CUresult result) {
  const cudaError_t error = cudaError_t(int(result));
  if (error != cudaSuccess) last = error;
  return error;
}

CUdeviceptr number(const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }

CUresult use(int device) {
  if (const CUresult failed = cuInit(0)) return failed;
  int count = 0;
  if (const CUresult failed = cuDeviceGetCount(&count)) return failed;
  if (device < 0 || device >= count) return CUDA_ERROR_INVALID_DEVICE;
  CUcontext context;
  if (const CUresult failed = cuDevicePrimaryCtxRetain(&context, device)) return failed;
  cuDevicePrimaryCtxRelease(device);
  return cuCtxSetCurrent(context);
}

CUresult ensure_context() {
  CUcontext context = nullptr;
  cuCtxGetCurrent(&context);
  return context ? CUDA_SUCCESS : use(chosen);
}

int attribute(CUdevice_attribute which, int device) {
  int value = 0;
  cuDeviceGetAttribute(&value, which, device);
  return value;
}

CUresult peer_context(int device, CUcontext* context) {
  const CUresult failed = cuDevicePrimaryCtxRetain(context, device);
  if (!failed) cuDevicePrimaryCtxRelease(device);
  return failed;
}

}  // namespace

RUNTIME cudaDriverGetVersion(int* version) { return give(cuDriverGetVersion(version)); }

RUNTIME cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

RUNTIME cudaGetLastError() {
  const cudaError_t error = last;
  last = cudaSuccess;
  return error;
}

RUNTIME cudaPeekAtLastError() { return last; }

extern "C" const char* CUDARTAPI cudaGetErrorName(cudaError_t error) {
#define NAME(code) \
  case code: return #code
  switch (error) {
    NAME(cudaSuccess);
    NAME(cudaErrorInvalidValue);
    NAME(cudaErrorMemoryAllocation);
    NAME(cudaErrorInitializationError);
    NAME(cudaErrorInsufficientDriver);
    NAME(cudaErrorDevicesUnavailable);
    NAME(cudaErrorNoDevice);
    NAME(cudaErrorInvalidDevice);
    NAME(cudaErrorInvalidKernelImage);
    NAME(cudaErrorNoKernelImageForDevice);
    NAME(cudaErrorECCUncorrectable);
    NAME(cudaErrorInvalidResourceHandle);
    NAME(cudaErrorSymbolNotFound);
    NAME(cudaErrorIllegalAddress);
    NAME(cudaErrorLaunchOutOfResources);
    NAME(cudaErrorLaunchTimeout);
    NAME(cudaErrorNotReady);
    NAME(cudaErrorDeviceUninitialized);
    NAME(cudaErrorMapBufferObjectFailed);
    NAME(cudaErrorPeerAccessUnsupported);
    NAME(cudaErrorOperatingSystem);
    NAME(cudaErrorTooManyPeers);
    NAME(cudaErrorPeerAccessAlreadyEnabled);
    NAME(cudaErrorPeerAccessNotEnabled);
    NAME(cudaErrorLaunchFailure);
    NAME(cudaErrorNotSupported);
    NAME(cudaErrorSystemNotReady);
    NAME(cudaErrorSystemDriverMismatch);
    default: return "cudaErrorUnknown";
  }
#undef NAME
}

extern "C" const char* CUDARTAPI cudaGetErrorString(cudaError_t error) {
  if (error == cudaErrorInsufficientDriver) return "CUDA driver version is insufficient for CUDA runtime version";
  const char* text = nullptr;
  cuGetErrorString(CUresult(int(error)), &text);
  return text ? text : "unrecognized error code";
}

RUNTIME cudaGetDeviceCount(int* count) {
  const CUresult failed = cuInit(0);
  if (failed) return give(failed);
  if (const CUresult unknown = cuDeviceGetCount(count)) return give(unknown);
  return *count ? cudaSuccess : give(CUDA_ERROR_NO_DEVICE);
}

RUNTIME cudaGetDevice(int* device) {
  *device = chosen;
  return cudaSuccess;
}

RUNTIME cudaSetDevice(int device) {
  const CUresult failed = use(device);
  if (!failed) chosen = device;
  return give(failed);
}

RUNTIME cudaDeviceSynchronize() {
  RUNTIME_CONTEXT();
  return give(cuCtxSynchronize());
}

RUNTIME cudaDeviceGetAttribute(int* value, cudaDeviceAttr which, int device) {
  return give(cuDeviceGetAttribute(value, CUdevice_attribute(int(which)), device));
}

RUNTIME cudaDeviceGetByPCIBusId(int* device, const char* id) { return give(cuDeviceGetByPCIBusId(device, id)); }
RUNTIME cudaDeviceGetPCIBusId(char* id, int size, int device) { return give(cuDeviceGetPCIBusId(id, size, device)); }

RUNTIME cudaGetDeviceProperties(cudaDeviceProp* out, int device) {
  memset(out, 0, sizeof *out);
  if (const CUresult failed = cuDeviceGetName(out->name, sizeof out->name, device)) return give(failed);
  cuDeviceGetUuid(reinterpret_cast<CUuuid*>(&out->uuid), device);
  cuDeviceTotalMem(&out->totalGlobalMem, device);
  const auto read = [device](CUdevice_attribute which) { return attribute(which, device); };
  out->major = read(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  out->minor = read(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  out->multiProcessorCount = read(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  out->warpSize = read(CU_DEVICE_ATTRIBUTE_WARP_SIZE);
  out->maxThreadsPerBlock = read(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  out->maxThreadsPerMultiProcessor = read(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
  out->sharedMemPerBlock = size_t(read(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK));
  out->regsPerBlock = read(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK);
  out->l2CacheSize = read(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
  out->memoryBusWidth = read(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH);
  out->pciBusID = read(CU_DEVICE_ATTRIBUTE_PCI_BUS_ID);
  out->pciDeviceID = read(CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID);
  out->pciDomainID = read(CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID);
  out->ECCEnabled = read(CU_DEVICE_ATTRIBUTE_ECC_ENABLED);
  out->unifiedAddressing = read(CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING);
  out->canMapHostMemory = read(CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY);
  return cudaSuccess;
}

RUNTIME cudaDeviceCanAccessPeer(int* yes, int device, int peer) { return give(cuDeviceCanAccessPeer(yes, device, peer)); }

RUNTIME cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
  RUNTIME_CONTEXT();
  CUcontext context;
  const CUresult failed = peer_context(peer, &context);
  return give(failed ? failed : cuCtxEnablePeerAccess(context, flags));
}

RUNTIME cudaDeviceDisablePeerAccess(int peer) {
  RUNTIME_CONTEXT();
  CUcontext context;
  const CUresult failed = peer_context(peer, &context);
  return give(failed ? failed : cuCtxDisablePeerAccess(context));
}

RUNTIME cudaMalloc(void** address, size_t size) {
  RUNTIME_CONTEXT();
  *address = nullptr;
  return size ? give(cuMemAlloc(reinterpret_cast<CUdeviceptr*>(address), size)) : cudaSuccess;
}

RUNTIME cudaMallocManaged(void** address, size_t size, unsigned flags) {
  RUNTIME_CONTEXT();
  return give(cuMemAllocManaged(reinterpret_cast<CUdeviceptr*>(address), size, flags));
}

RUNTIME cudaFree(void* address) {
  RUNTIME_CONTEXT();
  return give(cuMemFree(number(address)));
}

RUNTIME cudaHostAlloc(void** address, size_t size, unsigned flags) {
  RUNTIME_CONTEXT();
  return give(cuMemHostAlloc(address, size, flags));
}

RUNTIME cudaFreeHost(void* address) {
  RUNTIME_CONTEXT();
  return give(cuMemFreeHost(address));
}

RUNTIME cudaHostRegister(void* address, size_t size, unsigned flags) {
  RUNTIME_CONTEXT();
  return give(cuMemHostRegister(address, size, flags));
}

RUNTIME cudaHostUnregister(void* address) {
  RUNTIME_CONTEXT();
  return give(cuMemHostUnregister(address));
}

RUNTIME cudaMemGetInfo(size_t* free, size_t* total) {
  RUNTIME_CONTEXT();
  return give(cuMemGetInfo(free, total));
}

RUNTIME cudaMemcpyAsync(void* destination, const void* source, size_t size, cudaMemcpyKind kind, cudaStream_t stream) {
  RUNTIME_CONTEXT();
  switch (kind) {
    case cudaMemcpyHostToDevice: return give(cuMemcpyHtoDAsync(number(destination), source, size, stream));
    case cudaMemcpyDeviceToHost: return give(cuMemcpyDtoHAsync(destination, number(source), size, stream));
    case cudaMemcpyDeviceToDevice: return give(cuMemcpyDtoDAsync(number(destination), number(source), size, stream));
    default: return give(cuMemcpyAsync(number(destination), number(source), size, stream));
  }
}

RUNTIME cudaMemcpy(void* destination, const void* source, size_t size, cudaMemcpyKind kind) {
  return cudaMemcpyAsync(destination, source, size, kind, nullptr);
}

RUNTIME cudaMemcpyPeerAsync(void* destination, int to, const void* source, int from, size_t size, cudaStream_t stream) {
  RUNTIME_CONTEXT();
  CUcontext there, here;
  if (const CUresult failed = peer_context(to, &there)) return give(failed);
  if (const CUresult failed = peer_context(from, &here)) return give(failed);
  return give(cuMemcpyPeerAsync(number(destination), there, number(source), here, size, stream));
}

// Both are 64 bytes that only the driver understands.
static_assert(sizeof(cudaIpcMemHandle_t) == sizeof(CUipcMemHandle));

RUNTIME cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* address) {
  RUNTIME_CONTEXT();
  return give(cuIpcGetMemHandle(reinterpret_cast<CUipcMemHandle*>(handle), number(address)));
}

RUNTIME cudaIpcOpenMemHandle(void** address, cudaIpcMemHandle_t handle, unsigned flags) {
  RUNTIME_CONTEXT();
  CUipcMemHandle plain;
  memcpy(&plain, &handle, sizeof plain);
  return give(cuIpcOpenMemHandle(reinterpret_cast<CUdeviceptr*>(address), plain, flags));
}

RUNTIME cudaIpcCloseMemHandle(void* address) {
  RUNTIME_CONTEXT();
  return give(cuIpcCloseMemHandle(number(address)));
}

RUNTIME cudaMemcpyPeer(void* destination, int to, const void* source, int from, size_t size) {
  return cudaMemcpyPeerAsync(destination, to, source, from, size, nullptr);
}

RUNTIME cudaMemsetAsync(void* address, int value, size_t size, cudaStream_t stream) {
  RUNTIME_CONTEXT();
  return give(cuMemsetD8Async(number(address), (unsigned char)value, size, stream));
}

RUNTIME cudaMemset(void* address, int value, size_t size) { return cudaMemsetAsync(address, value, size, nullptr); }

RUNTIME cudaPointerGetAttributes(cudaPointerAttributes* out, const void* pointer) {
  RUNTIME_CONTEXT();
  int type = 0, device = -2;
  CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
  void* values[] = {&type, &device};
  if (const CUresult failed = cuPointerGetAttributes(2, which, values, number(pointer))) return give(failed);
  memset(out, 0, sizeof *out);
  out->type = cudaMemoryType(type);
  out->device = device;
  out->devicePointer = type ? const_cast<void*>(pointer) : nullptr;
  out->hostPointer = type == CU_MEMORYTYPE_DEVICE ? nullptr : const_cast<void*>(pointer);
  return cudaSuccess;
}

RUNTIME cudaStreamCreate(cudaStream_t* stream) {
  RUNTIME_CONTEXT();
  return give(cuStreamCreate(stream, 0));
}

RUNTIME cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  RUNTIME_CONTEXT();
  return give(cuStreamCreate(stream, flags));
}

RUNTIME cudaStreamDestroy(cudaStream_t stream) { return give(cuStreamDestroy(stream)); }

RUNTIME cudaStreamSynchronize(cudaStream_t stream) {
  RUNTIME_CONTEXT();
  return give(cuStreamSynchronize(stream));
}

RUNTIME cudaStreamQuery(cudaStream_t stream) {
  RUNTIME_CONTEXT();
  return give(cuStreamQuery(stream));
}

RUNTIME cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  RUNTIME_CONTEXT();
  return give(cuStreamWaitEvent(stream, event, flags));
}

RUNTIME cudaEventCreate(cudaEvent_t* event) {
  RUNTIME_CONTEXT();
  return give(cuEventCreate(event, 0));
}

RUNTIME cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  RUNTIME_CONTEXT();
  return give(cuEventCreate(event, flags));
}

RUNTIME cudaEventDestroy(cudaEvent_t event) { return give(cuEventDestroy(event)); }

RUNTIME cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  RUNTIME_CONTEXT();
  return give(cuEventRecord(event, stream));
}

RUNTIME cudaEventQuery(cudaEvent_t event) { return give(cuEventQuery(event)); }
RUNTIME cudaEventSynchronize(cudaEvent_t event) { return give(cuEventSynchronize(event)); }

RUNTIME cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  return give(cuEventElapsedTime(milliseconds, start, end));
}
