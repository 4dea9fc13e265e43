// Memory of one process in another one: handles of device memory (CUDA IPC) over anonymous files of the system.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <climits>
#include <cstdio>
#include <cstring>

#include "fake.h"

namespace fake {
namespace {

// What the 64 bytes of a handle hold.
struct Handle {
  char mark[8];
  int process;
  int file;
  int device;
  size_t size;
  size_t body;
  size_t offset;  // of the allocation within its body
  long serial;
};
static_assert(sizeof(Handle) <= sizeof(CUipcMemHandle));
constexpr char kMark[8] = "fakeipc";

std::string name_of(long serial) { return "fake-cuda-" + std::to_string(serial); }

// Moves the memory into a file, in its place, so that another process can have it as well.
bool share(Allocation& allocation) {
  static long serial = 0;
  allocation.serial = ++serial;
  const int file = memfd_create(name_of(allocation.serial).c_str(), MFD_CLOEXEC);
  if (file < 0) return false;
  void* place = reinterpret_cast<void*>(allocation.start);
  const bool kept = ftruncate(file, off_t(allocation.body)) == 0 &&
                    pwrite(file, place, allocation.body, 0) == ssize_t(allocation.body);
  if (!kept || mmap(place, allocation.body, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) == MAP_FAILED) {
    close(file);
    return false;
  }
  allocation.file = file;
  return true;
}

// The other process's file, as long as it is the one that the handle was made for; -1 otherwise.
int open_file(const Handle& handle) {
  char path[64], target[PATH_MAX];
  snprintf(path, sizeof path, "/proc/%d/fd/%d", handle.process, handle.file);
  const ssize_t length = readlink(path, target, sizeof target);
  if (length < 0 || !strstr(std::string(target, size_t(length)).c_str(), (name_of(handle.serial) + " ").c_str())) return -1;
  return open(path, O_RDWR | O_CLOEXEC);
}

// Memory that was opened twice is there once.
struct Opened {
  uintptr_t address;
  int times;
};
std::map<std::pair<int, long>, Opened> opened;  // by process and serial

CUresult borrow(const Handle& handle, CUdeviceptr* address) {
  const int file = open_file(handle);
  FAKE_REQUIRE(file >= 0, CUDA_ERROR_INVALID_HANDLE);
  const size_t page = size_t(sysconf(_SC_PAGESIZE));
  Allocation made{handle.device, handle.size, Kind::borrowed, nullptr, handle.body + 2 * page};
  made.mapping = mmap(nullptr, made.mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  made.start = uintptr_t(made.mapping) + page;
  made.body = handle.body;
  made.file = file;
  void* place = reinterpret_cast<void*>(made.start);
  if (made.mapping == MAP_FAILED ||
      mmap(place, made.body, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) == MAP_FAILED) {
    close(file);
    return CUDA_ERROR_MAP_FAILED;
  }
  *address = made.start + handle.offset;
  world().allocations[*address] = made;
  opened[{handle.process, handle.serial}] = {*address, 1};
  return CUDA_SUCCESS;
}

}  // namespace
}  // namespace fake

FAKE_API cuIpcGetMemHandle(CUipcMemHandle* out, CUdeviceptr address) {
  FAKE_ENTER();
  FAKE_CONTEXT(context);
  uintptr_t base = 0;
  fake::find(address, &base);
  const auto place = fake::world().allocations.find(base);
  FAKE_REQUIRE(base && place->second.kind == fake::Kind::device, CUDA_ERROR_INVALID_VALUE);
  fake::Allocation& allocation = place->second;
  FAKE_REQUIRE(allocation.file >= 0 || fake::share(allocation), CUDA_ERROR_OPERATING_SYSTEM);
  fake::Handle handle{};
  memcpy(handle.mark, fake::kMark, sizeof handle.mark);
  handle.process = getpid();
  handle.file = allocation.file;
  handle.device = allocation.device;
  handle.size = allocation.size;
  handle.body = allocation.body;
  handle.offset = base - allocation.start;  // of the base: where in the allocation the address was is not kept
  handle.serial = allocation.serial;
  memset(out, 0, sizeof *out);
  memcpy(out, &handle, sizeof handle);
  return CUDA_SUCCESS;
}

// For the current device; another one's memory is reached as a peer's, which this connects.
FAKE_API cuIpcOpenMemHandle(CUdeviceptr* address, CUipcMemHandle given, unsigned flags) {
  FAKE_ENTER();
  FAKE_CONTEXT(context);
  FAKE_REQUIRE(flags == CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS, CUDA_ERROR_INVALID_VALUE);
  fake::Handle handle;
  memcpy(&handle, &given, sizeof handle);
  FAKE_REQUIRE(!memcmp(handle.mark, fake::kMark, sizeof handle.mark), CUDA_ERROR_INVALID_HANDLE);
  FAKE_REQUIRE(handle.process != getpid(), CUDA_ERROR_INVALID_CONTEXT);
  FAKE_REQUIRE(handle.device < fake::world().devices, CUDA_ERROR_INVALID_HANDLE);
  const bool apart = fake::world().apart.count({context->device, handle.device});
  FAKE_REQUIRE(!apart, CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
  if (handle.device != context->device) context->peers[handle.device] = true;
  const auto known = fake::opened.find({handle.process, handle.serial});
  if (known == fake::opened.end() || !fake::find(known->second.address)) return fake::borrow(handle, address);
  ++known->second.times;
  *address = known->second.address;
  return CUDA_SUCCESS;
}

FAKE_API cuIpcCloseMemHandle(CUdeviceptr address) {
  FAKE_ENTER();
  FAKE_CONTEXT(context);
  for (auto place = fake::opened.begin(); place != fake::opened.end(); ++place) {
    if (place->second.address != address) continue;
    if (--place->second.times) return CUDA_SUCCESS;
    fake::wait_for(fake::find(address)->device, "cuIpcCloseMemHandle");
    fake::forget(address);
    fake::opened.erase(place);
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_VALUE;
}
