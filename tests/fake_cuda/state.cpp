// What the fake driver knows, and how a test steers it: fake_control(TEXT) and fake_query(TEXT), not part of CUDA.
#include "fake.h"

#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <sstream>

namespace fake {
namespace {

// Signs of a real driver: Linux, WSL, Tegra.
constexpr const char* kRealDriver[] = {"/proc/driver/nvidia/version", "/dev/nvidiactl", "/dev/nvidia0", "/dev/dxg",
                                       "/dev/nvhost-gpu"};

bool refused() {
  static const bool answer = [] {
    if (!getenv("MATS_FAKE_CUDA")) {
      fprintf(stderr, "fake CUDA driver: for the tests of mats only; set MATS_FAKE_CUDA to use it\n");
      return true;
    }
    for (const char* path : kRealDriver) {
      if (access(path, F_OK) == 0) {
        fprintf(stderr, "fake CUDA driver: refused, a real driver is here (%s)\n", path);
        return true;
      }
    }
    return false;
  }();
  return answer;
}

// The number after a name such as "used.3"; `fallback` without one.
int suffix(const std::string& name, int fallback) {
  const size_t dot = name.rfind('.');
  return dot == name.npos ? fallback : atoi(name.c_str() + dot + 1);
}

bool starts(const std::string& text, const char* head) { return text.compare(0, strlen(head), head) == 0; }

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::stringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

// fail=FUNCTION:SKIP:TIMES:CODE[:sticky][:DEVICE]
bool add_rule(const std::string& value) {
  const std::vector<std::string> part = split(value, ':');
  if (part.size() < 4) return false;
  Rule rule{part[0], -1, atol(part[1].c_str()), atol(part[2].c_str()), CUresult(atoi(part[3].c_str())), false};
  for (size_t i = 4; i < part.size(); ++i) {
    if (part[i] == "sticky")
      rule.sticky = true;
    else
      rule.device = atoi(part[i].c_str());
  }
  world().rules.push_back(rule);
  return true;
}

// Everything back as at the start but memory, events and modules, which stay as they are: a test checks them.
void reset() {
  World& w = world();
  w.devices = 2;
  w.driver_version = CUDA_VERSION;
  w.init_result = CUDA_SUCCESS;
  for (Device& device : w.device) {
    device.total = size_t{1} << 30;
    device.others = 0;
    device.sticky = CUDA_SUCCESS;
  }
  w.calls.clear();
  w.rules.clear();
  w.manual_clock = w.misaligned = w.same_uuids = false;
  w.launch_seconds = w.bytes_per_second = w.copy_seconds = w.host_rate = w.staged_rate = w.direct_rate = 0;
  w.rates.clear();
  w.apart.clear();
  w.corrupt.clear();
  w.hang.clear();
}

// As when a process ends: its memory goes, and devices that were lost to it work for the next one.
void restart() {
  World& w = world();
  while (!w.allocations.empty()) forget(w.allocations.begin()->first);
  for (Device& device : w.device) device.sticky = CUDA_SUCCESS;
  for (CUctx_st& context : w.primary) context.peers.clear();
  for (CUstream_st& stream : w.null_stream) {
    stream.work.clear();
    stream.stuck = false;
  }
  w.made_streams.clear();
  w.events = w.streams = 0;
}

// "FROM:TO", or "DEVICE" for every way from it and to it.
bool add_ways(const std::string& value, std::set<Way>& ways) {
  const std::vector<std::string> part = split(value, ':');
  if (part.empty() || part.size() > 2) return false;
  const int first = atoi(part[0].c_str());
  if (part.size() == 2) return ways.insert({first, atoi(part[1].c_str())}), true;
  for (int other = 0; other < kMostDevices; ++other) {
    if (other == first) continue;
    ways.insert({first, other});
    ways.insert({other, first});
  }
  return true;
}

// Both ways between two devices.
bool set_apart(const std::string& value) {
  std::set<Way> ways;
  if (!add_ways(value, ways)) return false;
  for (const Way& way : ways) {
    world().apart.insert(way);
    world().apart.insert({way.second, way.first});
  }
  return true;
}

// RATE for every direct way, or FROM:TO:RATE for one.
bool set_rate(const std::string& value) {
  const std::vector<std::string> part = split(value, ':');
  if (part.size() == 1) return world().direct_rate = atof(part[0].c_str()), true;
  if (part.size() != 3) return false;
  world().rates[{atoi(part[0].c_str()), atoi(part[1].c_str())}] = atof(part[2].c_str());
  return true;
}

bool set_size(const std::string& name, const std::string& value, size_t Device::* field) {
  const int only = suffix(name, -1);
  if (only >= kMostDevices) return false;
  for (int i = 0; i < kMostDevices; ++i) {
    if (only < 0 || only == i) world().device[i].*field = strtoull(value.c_str(), nullptr, 0);
  }
  return true;
}

bool obey(const std::string& name, const std::string& value) {
  World& w = world();
  if (name == "reset") return reset(), true;
  if (name == "devices") {
    w.devices = atoi(value.c_str());
    return w.devices >= 0 && w.devices <= kMostDevices;
  }
  if (name == "driver") return w.driver_version = atoi(value.c_str()), true;
  if (name == "init") return w.init_result = CUresult(atoi(value.c_str())), true;
  if (name == "memory" || starts(name, "memory.")) return set_size(name, value, &Device::total);
  if (name == "others" || starts(name, "others.")) return set_size(name, value, &Device::others);
  if (starts(name, "sticky.")) {
    w.device[suffix(name, 0) % kMostDevices].sticky = CUresult(atoi(value.c_str()));
    return true;
  }
  if (name == "fail") return add_rule(value);
  if (name == "clock") return w.manual_clock = value == "manual", value == "manual" || value == "real";
  if (name == "misaligned") return w.misaligned = value == "1", true;
  if (name == "same_uuids") return w.same_uuids = value == "1", true;
  if (name == "restart") return restart(), true;
  if (name == "report") return w.report = value, true;
  if (name == "advance") {
    for (Device& device : w.device) device.clock += atof(value.c_str());
    return true;
  }
  if (name == "launch_seconds") return w.launch_seconds = atof(value.c_str()), true;
  if (name == "bytes_per_second") return w.bytes_per_second = atof(value.c_str()), true;
  if (name == "copy_seconds") return w.copy_seconds = atof(value.c_str()), true;
  if (name == "host") return w.host_rate = atof(value.c_str()), true;
  if (name == "staged") return w.staged_rate = atof(value.c_str()), true;
  if (name == "direct") return set_rate(value);
  if (name == "apart") return set_apart(value);
  if (name == "corrupt") return add_ways(value, w.corrupt);
  if (name == "hang") return add_ways(value, w.hang);
  return false;
}

bool obey_all(const char* text) {
  for (const std::string& command : split(text, ';')) {
    if (command.empty()) continue;
    const size_t equal = command.find('=');
    const std::string value = equal == command.npos ? "" : command.substr(equal + 1);
    if (!obey(command.substr(0, equal), value)) {
      fprintf(stderr, "fake CUDA driver: unknown command %s\n", command.c_str());
      return false;
    }
  }
  return true;
}

// The size of a kernel's parameter, or with index -1 their number.
long long parameter(const std::string& kernel, int index) {
  const auto found = world().parameter_sizes.find(kernel);
  if (found == world().parameter_sizes.end()) return -1;
  if (index < 0) return (long long)found->second.size();
  return index < int(found->second.size()) ? (long long)found->second[size_t(index)] : -1;
}

// What is left when the process ends, for tests that cannot look into it.
__attribute__((destructor)) void write_report() {
  const World& w = world();
  FILE* file = w.report.empty() ? nullptr : fopen(w.report.c_str(), "w");
  if (!file) return;
  fprintf(file, "allocations %zu\nevents %ld\nstreams %ld\n", w.allocations.size(), w.events, w.streams);
  fclose(file);
}

// How many others a device is connected with.
long long peers_of(int device) {
  long long count = 0;
  for (const auto& [peer, connected] : world().primary[device % kMostDevices].peers) count += connected;
  return count;
}

struct Request {
  const void* address;
  size_t size;
};
thread_local Request recent[64];
thread_local unsigned next_request;

}  // namespace

World& world() {
  static World* the_world = [] {
    World* w = new World;
    for (int i = 0; i < kMostDevices; ++i) w->primary[i].device = w->null_stream[i].device = i;
    return w;
  }();
  static bool configured = false;
  if (!configured) {
    configured = true;  // before the commands, which come here again
    const char* text = getenv("MATS_FAKE_CUDA");
    if (text && !obey_all(text)) abort();
  }
  return *the_world;
}

CUresult enter(const char* exported) {
  if (refused()) return CUDA_ERROR_SYSTEM_DRIVER_MISMATCH;
  World& w = world();
  // cuda.h gives many calls a version suffix; tests name them without.
  std::string function = exported;
  const size_t version = function.rfind("_v");
  if (version != function.npos && version + 3 == function.size()) function.resize(version);
  ++w.calls[function];
  const CUctx_st* context = current();
  for (Rule& rule : w.rules) {
    if (rule.function != function || rule.times <= 0) continue;
    if (rule.device >= 0 && (!context || context->device != rule.device)) continue;
    if (rule.skip-- > 0) continue;
    --rule.times;
    if (rule.sticky && context) w.device[context->device].sticky = rule.error;
    return rule.error;
  }
  return CUDA_SUCCESS;
}

double& device_clock(int device) { return world().device[device].clock; }

// Seconds now: of a clock that a test moves, or of this machine's.
double read_clock(double clock) {
  if (world().manual_clock) return clock;
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
}

double seconds_for(size_t bytes) {
  const double rate = world().bytes_per_second;
  return rate > 0 ? double(bytes) / rate : 0;
}

double seconds_between(const Way& way, bool direct, size_t bytes) {
  const World& w = world();
  const auto own = w.rates.find(way);
  const double rate = !direct ? w.staged_rate : own != w.rates.end() ? own->second : w.direct_rate;
  return w.copy_seconds + (rate > 0 ? double(bytes) / rate : seconds_for(bytes));
}

size_t requested(const void* address) {
  for (unsigned back = 1; back <= 64; ++back) {
    const Request& request = recent[(next_request - back) % 64];
    if (request.address == address) return request.size;
  }
  return 0;
}

}  // namespace fake

// The caller of cuLaunchKernel does not say how many arguments it passes. CuPy keeps them in a std::vector that it
// reserves to their exact number, and this library is loaded first and globally, so its operator new is the one that
// is used: the size of that vector is the number of arguments.
__attribute__((visibility("default"))) void* operator new(std::size_t size) {
  void* address = malloc(size ? size : 1);
  if (!address) throw std::bad_alloc();
  fake::recent[fake::next_request++ % 64] = {address, size};
  return address;
}
__attribute__((visibility("default"))) void operator delete(void* address) noexcept { free(address); }
__attribute__((visibility("default"))) void operator delete(void* address, std::size_t) noexcept { free(address); }

// Commands NAME=VALUE separated by semicolons; 0 when all were understood.
FAKE_CONTROL int fake_control(const char* text) {
  std::lock_guard<std::recursive_mutex> hold(fake::world().mutex);
  return fake::obey_all(text) ? 0 : 1;
}

// used.DEVICE, sticky.DEVICE, peers.DEVICE, allocations, events, streams, stuck, modules, calls.FUNCTION, parameters.KERNEL (their number),
// bytes.KERNEL.INDEX (the size of one), last_grid (blocks of the last launch); -1 for anything else.
FAKE_CONTROL long long fake_query(const char* text) {
  fake::World& w = fake::world();
  std::lock_guard<std::recursive_mutex> hold(w.mutex);
  const std::string name = text;
  if (fake::starts(name, "used.")) return (long long)w.device[fake::suffix(name, 0) % fake::kMostDevices].used;
  if (fake::starts(name, "sticky.")) return w.device[fake::suffix(name, 0) % fake::kMostDevices].sticky;
  if (fake::starts(name, "calls.")) return w.calls[name.substr(6)];
  const std::string rest = name.substr(name.find('.') + 1);
  if (fake::starts(name, "parameters.")) return fake::parameter(rest, -1);
  if (fake::starts(name, "bytes.")) return fake::parameter(rest.substr(0, rest.rfind('.')), fake::suffix(rest, 0));
  if (name == "allocations") return (long long)w.allocations.size();
  if (name == "last_grid") return w.last_grid;
  if (name == "events") return w.events;
  if (name == "streams") return w.streams;
  if (name == "stuck") return fake::stuck_streams();
  if (fake::starts(name, "peers.")) return fake::peers_of(fake::suffix(name, 0));
  if (name == "modules") return w.modules;
  return -1;
}
