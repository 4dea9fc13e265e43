// The state of the fake driver, shared by its parts. See README.md for what this is and is not.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

// Every exported driver function opens with FAKE_ENTER: it refuses to work where it must not, counts the call and
// gives the error that a test has planned for it.
#define FAKE_API extern "C" __attribute__((visibility("default"))) CUresult CUDAAPI
#define FAKE_CONTROL extern "C" __attribute__((visibility("default")))
#define FAKE_ENTER()                                                    \
  std::lock_guard<std::recursive_mutex> hold(fake::world().mutex);      \
  if (const CUresult planned = fake::enter(__func__)) return planned
#define FAKE_REQUIRE(condition, error) \
  if (!(condition)) return error
// A call that needs a working context: none, or one whose device has failed for good, ends it.
#define FAKE_CONTEXT(name)                                              \
  CUctx_st* name = fake::current();                                     \
  FAKE_REQUIRE(name, CUDA_ERROR_INVALID_CONTEXT);                       \
  if (const CUresult lost = fake::world().device[name->device].sticky) return lost

struct CUctx_st {
  int device = 0;
  unsigned holders = 0;
  std::map<int, bool> peers;
};

namespace fake {

constexpr int kMostDevices = 16;

using Way = std::pair<int, int>;  // from a device to a device

// A copy between devices.
struct Moved {
  uintptr_t destination = 0, source = 0;
  size_t size = 0;
  bool operator==(const Moved& other) const {
    return destination == other.destination && source == other.source && size == other.size;
  }
};

// What is put into a stream, given the stream's clock; false: it never ends.
using Work = std::function<bool(double& clock)>;

}  // namespace fake

// Work is done when somebody asks for it: a query or a wait does all that is in the stream up to there. Of the default
// stream it is done at once.
struct CUstream_st {
  unsigned flags = 0;
  int device = 0;
  double own_clock = 0;
  std::deque<fake::Work> work;
  bool stuck = false;
  fake::Way stuck_on{-1, -1};  // the devices that what never ends has to do with
  fake::Moved last{};          // what is last in it, where that is a copy between devices
};

namespace fake {

struct Device {
  size_t total = size_t{1} << 30;
  size_t others = 0;  // bytes held by "other processes"
  size_t used = 0;
  double clock = 0;                // seconds
  CUresult sticky = CUDA_SUCCESS;  // an error after which the context answers nothing else
};

enum class Kind { device, host, registered, borrowed };  // borrowed: another process's, opened by its handle

struct Allocation {
  int device;
  size_t size;
  Kind kind;
  void* mapping;  // what munmap needs; null for registered memory, which is the caller's
  size_t mapped;
  uintptr_t start = 0;  // the part of the mapping that can be touched
  size_t body = 0;
  int file = -1;  // what other processes open, once a handle was asked for
  long serial = 0;
};

// "The call FUNCTION fails with `error`, after `skip` good calls, `times` times, on `device` (-1: any)."
struct Rule {
  std::string function;
  int device;
  long skip;
  long times;
  CUresult error;
  bool sticky;
};

struct World {
  std::recursive_mutex mutex;
  int devices = 2;
  int driver_version = CUDA_VERSION;
  CUresult init_result = CUDA_SUCCESS;
  Device device[kMostDevices];
  CUctx_st primary[kMostDevices];
  CUstream_st null_stream[kMostDevices];
  std::set<CUstream_st*> made_streams;
  std::map<uintptr_t, Allocation> allocations;
  std::map<std::string, long> calls;
  std::vector<Rule> rules;
  std::map<std::string, std::vector<size_t>> parameter_sizes;  // of the kernels that were looked up
  bool misaligned = false;  // large pieces start beside a page, as no driver is known to do but each may
  bool same_uuids = false;  // but for the last byte
  long last_grid = 0;
  long events = 0;
  long streams = 0;
  long modules = 0;
  // A manual clock, one for each device, moves only by `advance`, and by what a launch or a moved byte is said to cost.
  std::string report;  // a file
  bool manual_clock = false;
  double launch_seconds = 0;
  double bytes_per_second = 0;
  // Copies from a device to another one: what each costs beside its bytes, and how fast the ways are.
  double copy_seconds = 0;
  double host_rate = 0;  // of copies from the host and to it; 0: as all others
  double staged_rate = 0;
  double direct_rate = 0;
  std::map<Way, double> rates;
  std::set<Way> apart, corrupt, hang;
};

World& world();
CUctx_st* current();
CUresult enter(const char* function);
// A device's clock, as the host or its default stream sees it.
double& device_clock(int device);
double read_clock(double clock);
double seconds_for(size_t bytes);
double seconds_between(const Way& way, bool direct, size_t bytes);
// Puts work into a stream; null is the default one of the current device.
CUstream_st* stream_of(CUstream stream, int device);
void submit(CUstream_st* stream, Work work);
// Does what is in the stream; false when some of it never ends.
bool drain(CUstream_st* stream);
// Everything that has to do with a device; ends the process where a GPU would never answer.
void wait_for(int device, const char* function);
long stuck_streams();
// What the kernels of a device may touch while one runs: its own memory and that of the peers it is connected with.
void close_to(int device, const std::vector<std::string>& arguments);
void open_again(int device, const std::vector<std::string>& arguments);
const Allocation* find(uintptr_t address, uintptr_t* base = nullptr);
// How many bytes `operator new` was last asked for at this address on this thread; 0 when it is not remembered.
size_t requested(const void* address);
// Gives back the memory of an allocation, whatever state its device is in.
void forget(uintptr_t address);
bool is_guard(uintptr_t address);

}  // namespace fake
