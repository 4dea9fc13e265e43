// Device memory as host memory between guard pages, copies and fills.
#include "fake.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace fake {
namespace {

constexpr size_t kLargePage = size_t{2} << 20;
constexpr size_t kSmallUnit = 256;

size_t round_up(size_t value, size_t unit) { return (value + unit - 1) / unit * unit; }

// Like the real thing, 2 MiB and more start on 2 MiB and smaller pieces on 256 bytes; "misaligned" pieces start on 4 KiB
// or 256 bytes whatever their size. What comes after the piece's last
// page (or, when small, after its last 256 bytes), and what comes before its first, cannot be touched.
CUresult map(size_t size, Allocation& made, uintptr_t& address) {
  const size_t page = size_t(sysconf(_SC_PAGESIZE));
  const size_t body = round_up(size, page) + (world().misaligned ? page : 0);
  made.mapped = body + 2 * kLargePage;
  made.mapping = mmap(nullptr, made.mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (made.mapping == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  const uintptr_t start = round_up(uintptr_t(made.mapping) + page, kLargePage);
  if (mprotect(reinterpret_cast<void*>(start), body, PROT_READ | PROT_WRITE)) {
    munmap(made.mapping, made.mapped);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  made.start = start;
  made.body = body;
  const bool on_page = size >= kLargePage && !world().misaligned;
  address = on_page ? start : start + body - round_up(size, kSmallUnit);
  return CUDA_SUCCESS;
}

CUresult allocate(void** result, size_t size, Kind kind) {
  FAKE_CONTEXT(context);
  FAKE_REQUIRE(size > 0, CUDA_ERROR_INVALID_VALUE);
  Device& device = world().device[context->device];
  if (kind == Kind::device) {
    FAKE_REQUIRE(device.others + device.used + size <= device.total, CUDA_ERROR_OUT_OF_MEMORY);
  }
  Allocation made{context->device, size, kind, nullptr, 0};
  uintptr_t address = 0;
  if (const CUresult failed = map(size, made, address)) return failed;
  if (kind == Kind::device) device.used += size;
  world().allocations[address] = made;
  *result = reinterpret_cast<void*>(address);
  return CUDA_SUCCESS;
}

CUresult release(uintptr_t address, Kind kind) {
  if (!address) return CUDA_SUCCESS;
  const auto place = world().allocations.find(address);
  FAKE_REQUIRE(place != world().allocations.end() && place->second.kind == kind, CUDA_ERROR_INVALID_VALUE);
  if (const CUresult lost = world().device[place->second.device].sticky) return lost;
  wait_for(place->second.device, "freeing memory");
  forget(address);
  return CUDA_SUCCESS;
}

bool inside(uintptr_t address, size_t size) {
  uintptr_t base = 0;
  const Allocation* found = find(address, &base);
  return found && address + size <= base + found->size;
}

// `checked_*`: that side must lie within one allocation of ours.
CUresult copy(uintptr_t destination, bool checked_destination, uintptr_t source, bool checked_source, size_t size,
              CUstream stream) {
  FAKE_CONTEXT(context);
  if (!size) return CUDA_SUCCESS;
  FAKE_REQUIRE(!checked_destination || inside(destination, size), CUDA_ERROR_INVALID_VALUE);
  FAKE_REQUIRE(!checked_source || inside(source, size), CUDA_ERROR_INVALID_VALUE);
  submit(stream_of(stream, context->device), [=](double& clock) {
    memmove(reinterpret_cast<void*>(destination), reinterpret_cast<const void*>(source), size);
    const double rate = checked_destination && checked_source ? 0 : world().host_rate;
    clock += rate > 0 ? double(size) / rate : seconds_for(size);
    return true;
  });
  return CUDA_SUCCESS;
}

// Each side must be on the device that is named for it.
CUresult copy_between(uintptr_t destination, int to, uintptr_t source, int from, size_t size, CUstream stream) {
  FAKE_CONTEXT(context);
  if (!size) return CUDA_SUCCESS;
  FAKE_REQUIRE(inside(destination, size) && inside(source, size), CUDA_ERROR_INVALID_VALUE);
  FAKE_REQUIRE(find(destination)->device == to && find(source)->device == from, CUDA_ERROR_INVALID_VALUE);
  CUstream_st* which = stream_of(stream, context->device);
  // The same copy right behind itself takes its time and changes nothing: the bytes are moved once.
  const Moved moved{destination, source, size};
  const bool again = !which->work.empty() && which->last == moved;
  submit(which, [=](double& clock) {
    World& w = world();
    const Way way{from, to};
    if (w.hang.count(way)) {
      which->stuck_on = way;
      return false;
    }
    if (!again) {
      memmove(reinterpret_cast<void*>(destination), reinterpret_cast<const void*>(source), size);
      if (w.corrupt.count(way)) reinterpret_cast<unsigned char*>(destination)[size / 2] ^= 0x10;
    }
    const bool direct = from == to || w.primary[from].peers[to] || w.primary[to].peers[from];
    clock += seconds_between(way, direct, size);
    return true;
  });
  which->last = moved;
  return CUDA_SUCCESS;
}

CUresult fill(uintptr_t address, unsigned char value, size_t size, CUstream stream) {
  FAKE_CONTEXT(context);
  FAKE_REQUIRE(!size || inside(address, size), CUDA_ERROR_INVALID_VALUE);
  submit(stream_of(stream, context->device), [=](double& clock) {
    memset(reinterpret_cast<void*>(address), value, size);
    clock += seconds_for(size);
    return true;
  });
  return CUDA_SUCCESS;
}

bool on_a_device(Kind kind) { return kind == Kind::device || kind == Kind::borrowed; }

bool is_in(const Allocation& allocation, const std::string& argument) {
  uintptr_t address = 0;
  if (argument.size() != sizeof address) return false;
  memcpy(&address, argument.data(), sizeof address);
  return address - allocation.start < allocation.body;
}

// Only what an argument points into: a launch cannot reach anything else of another device, and to change the
// protection of all of it takes longer than most launches.
void protect_peers(int device, const std::vector<std::string>& arguments, int protection) {
  const std::map<int, bool>& peers = world().primary[device].peers;
  for (const auto& [base, allocation] : world().allocations) {
    if (!on_a_device(allocation.kind) || allocation.device == device) continue;
    const auto connected = peers.find(allocation.device);
    if (connected != peers.end() && connected->second) continue;
    const Allocation& here = allocation;
    if (std::any_of(arguments.begin(), arguments.end(), [&](const std::string& each) { return is_in(here, each); }))
      mprotect(reinterpret_cast<void*>(allocation.start), allocation.body, protection);
  }
}

void pointer_attribute(void* out, CUpointer_attribute which, uintptr_t address) {
  const Allocation* found = find(address);
  switch (int(which)) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      *static_cast<int*>(out) = !found ? 0 : on_a_device(found->kind) ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
      break;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: *static_cast<int*>(out) = found ? found->device : -2; break;
    default: *static_cast<int*>(out) = 0; break;
  }
}

uintptr_t number(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer); }

}  // namespace

const Allocation* find(uintptr_t address, uintptr_t* base) {
  auto place = world().allocations.upper_bound(address);
  if (place == world().allocations.begin()) return nullptr;
  --place;
  if (address >= place->first + place->second.size) return nullptr;
  if (base) *base = place->first;
  return &place->second;
}

void forget(uintptr_t address) {
  const auto place = world().allocations.find(address);
  const Allocation& gone = place->second;
  if (gone.kind == Kind::device) world().device[gone.device].used -= gone.size;
  if (gone.mapping) munmap(gone.mapping, gone.mapped);
  if (gone.file >= 0) close(gone.file);
  world().allocations.erase(place);
}

// On a GPU the memory of a device that is not connected is not there for a kernel.
void close_to(int device, const std::vector<std::string>& arguments) { protect_peers(device, arguments, PROT_NONE); }
void open_again(int device, const std::vector<std::string>& arguments) {
  protect_peers(device, arguments, PROT_READ | PROT_WRITE);
}

bool is_guard(uintptr_t address) {
  for (const auto& [base, allocation] : world().allocations) {
    const uintptr_t start = number(allocation.mapping);
    if (start && address >= start && address < start + allocation.mapped) return true;
  }
  return false;
}

}  // namespace fake

using fake::Kind;
using fake::number;

FAKE_API cuMemGetInfo(size_t* free, size_t* total) {
  FAKE_ENTER();
  FAKE_CONTEXT(context);
  const fake::Device& device = fake::world().device[context->device];
  *total = device.total;
  *free = device.total - device.others - device.used;
  return CUDA_SUCCESS;
}

FAKE_API cuMemAlloc(CUdeviceptr* address, size_t size) {
  FAKE_ENTER();
  return fake::allocate(reinterpret_cast<void**>(address), size, Kind::device);
}

// Refused on purpose: managed memory may lie in the host's memory, which is not what a test of a GPU may touch.
FAKE_API cuMemAllocManaged(CUdeviceptr*, size_t, unsigned) {
  FAKE_ENTER();
  return CUDA_ERROR_NOT_SUPPORTED;
}

FAKE_API cuMemFree(CUdeviceptr address) {
  FAKE_ENTER();
  return fake::release(address, Kind::device);
}

FAKE_API cuMemHostAlloc(void** address, size_t size, unsigned) {
  FAKE_ENTER();
  return fake::allocate(address, size, Kind::host);
}

FAKE_API cuMemFreeHost(void* address) {
  FAKE_ENTER();
  return fake::release(number(address), Kind::host);
}

FAKE_API cuMemHostRegister(void* address, size_t size, unsigned) {
  FAKE_ENTER();
  FAKE_CONTEXT(context);
  fake::world().allocations[number(address)] = {context->device, size, Kind::registered, nullptr, 0};
  return CUDA_SUCCESS;
}

FAKE_API cuMemHostUnregister(void* address) {
  FAKE_ENTER();
  return fake::release(number(address), Kind::registered);
}

FAKE_API cuMemcpyAsync(CUdeviceptr destination, CUdeviceptr source, size_t size, CUstream stream) {
  FAKE_ENTER();
  return fake::copy(destination, false, source, false, size, stream);
}

FAKE_API cuMemcpyHtoDAsync(CUdeviceptr destination, const void* source, size_t size, CUstream stream) {
  FAKE_ENTER();
  return fake::copy(destination, true, number(source), false, size, stream);
}

FAKE_API cuMemcpyDtoHAsync(void* destination, CUdeviceptr source, size_t size, CUstream stream) {
  FAKE_ENTER();
  return fake::copy(number(destination), false, source, true, size, stream);
}

// Between devices it is a copy between peers: one address space tells where each is.
FAKE_API cuMemcpyDtoDAsync(CUdeviceptr destination, CUdeviceptr source, size_t size, CUstream stream) {
  FAKE_ENTER();
  const fake::Allocation *to = fake::find(destination), *from = fake::find(source);
  if (to && from && to->device != from->device) {
    return fake::copy_between(destination, to->device, source, from->device, size, stream);
  }
  return fake::copy(destination, true, source, true, size, stream);
}

FAKE_API cuMemcpyPeerAsync(CUdeviceptr destination, CUcontext to, CUdeviceptr source, CUcontext from, size_t size,
                           CUstream stream) {
  FAKE_ENTER();
  FAKE_REQUIRE(to && from, CUDA_ERROR_INVALID_CONTEXT);
  return fake::copy_between(destination, to->device, source, from->device, size, stream);
}

FAKE_API cuMemsetD8Async(CUdeviceptr address, unsigned char value, size_t size, CUstream stream) {
  FAKE_ENTER();
  return fake::fill(address, value, size, stream);
}

FAKE_API cuPointerGetAttributes(unsigned count, CUpointer_attribute* which, void** out, CUdeviceptr address) {
  FAKE_ENTER();
  for (unsigned i = 0; i < count; ++i) fake::pointer_attribute(out[i], which[i], address);
  return CUDA_SUCCESS;
}
