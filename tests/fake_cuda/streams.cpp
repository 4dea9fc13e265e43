// Streams and events of the fake driver.
#include <cstdio>
#include <cstdlib>

#include "fake.h"

// Shared with the record that is still in a stream, so that an event may be destroyed before it came about.
struct Moment {
  double time = -1;
  bool done = false;
  CUstream_st* stream = nullptr;
};

struct CUevent_st {
  unsigned flags;
  int device;
  std::shared_ptr<Moment> moment;  // of the latest record; null before the first
};

namespace fake {
namespace {

bool is_default(const CUstream_st* stream) { return stream == &world().null_stream[stream->device]; }

double& clock_of(CUstream_st* stream) { return is_default(stream) ? device_clock(stream->device) : stream->own_clock; }

[[noreturn]] void never_answers(int device, const char* function) {
  fprintf(stderr, "fake CUDA driver: %s waits for ever for device %d, which answers no more\n", function, device);
  abort();
}

}  // namespace

CUstream_st* stream_of(CUstream stream, int device) {
  const bool named = stream && stream != CU_STREAM_LEGACY && stream != CU_STREAM_PER_THREAD;
  return named ? stream : &world().null_stream[device];
}

bool drain(CUstream_st* stream) {
  while (!stream->work.empty() && !stream->stuck) {
    const Work work = stream->work.front();
    double& clock = clock_of(stream);
    if (!is_default(stream) && clock < device_clock(stream->device)) clock = device_clock(stream->device);
    if (!work(clock)) {
      stream->stuck = true;
      return false;
    }
    stream->work.pop_front();
  }
  return !stream->stuck;
}

// The default stream waits for the others that do not say that they go their own way.
void submit(CUstream_st* stream, Work work) {
  stream->last = {};
  stream->work.push_back(std::move(work));
  if (!is_default(stream)) return;
  for (CUstream_st* other : world().made_streams) {
    if (other->device == stream->device && !(other->flags & CU_STREAM_NON_BLOCKING)) drain(other);
  }
  drain(stream);
}

void wait_for(int device, const char* function) {
  const auto look = [&](CUstream_st* stream) {
    if (stream->device == device) drain(stream);
    const bool concerned = stream->device == device || stream->stuck_on.first == device || stream->stuck_on.second == device;
    if (stream->stuck && concerned) never_answers(device, function);
  };
  for (CUstream_st* stream : world().made_streams) look(stream);
  for (CUstream_st& stream : world().null_stream) look(&stream);
}

long stuck_streams() {
  long count = 0;
  for (const CUstream_st* stream : world().made_streams) count += stream->stuck;
  for (const CUstream_st& stream : world().null_stream) count += stream.stuck;
  return count;
}

namespace {

CUresult query(CUstream_st* stream) {
  const bool ended = drain(stream);
  if (const CUresult lost = world().device[stream->device].sticky) return lost;
  return ended ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

// What the host has seen of a stream is past for the device's own clock, too.
CUresult query(const CUevent_st& event) {
  if (!event.moment) return CUDA_SUCCESS;
  if (!event.moment->done) drain(event.moment->stream);
  if (const CUresult lost = world().device[event.device].sticky) return lost;
  if (!event.moment->done) return CUDA_ERROR_NOT_READY;
  double& clock = device_clock(event.device);
  if (world().manual_clock && clock < event.moment->time) clock = event.moment->time;
  return CUDA_SUCCESS;
}

}  // namespace
}  // namespace fake

FAKE_API cuStreamCreate(CUstream* stream, unsigned flags) {
  FAKE_ENTER();
  FAKE_CONTEXT(context);
  *stream = new CUstream_st;
  (*stream)->flags = flags;
  (*stream)->device = context->device;
  fake::world().made_streams.insert(*stream);
  ++fake::world().streams;
  return CUDA_SUCCESS;
}

// What is still in it is done; one that never ends stays behind.
FAKE_API cuStreamDestroy(CUstream stream) {
  FAKE_ENTER();
  FAKE_REQUIRE(fake::world().made_streams.count(stream), CUDA_ERROR_INVALID_HANDLE);
  --fake::world().streams;
  if (!fake::drain(stream)) return CUDA_SUCCESS;
  fake::world().made_streams.erase(stream);
  delete stream;
  return CUDA_SUCCESS;
}

FAKE_API cuStreamSynchronize(CUstream stream) {
  FAKE_ENTER();
  FAKE_CONTEXT(context);
  CUstream_st* which = fake::stream_of(stream, context->device);
  const CUresult state = fake::query(which);
  if (state == CUDA_ERROR_NOT_READY) fake::never_answers(which->device, "cuStreamSynchronize");
  return state;
}

FAKE_API cuStreamQuery(CUstream stream) {
  FAKE_ENTER();
  FAKE_CONTEXT(context);
  return fake::query(fake::stream_of(stream, context->device));
}

// An event that was not recorded yet holds nothing back.
FAKE_API cuStreamWaitEvent(CUstream stream, CUevent event, unsigned) {
  FAKE_ENTER();
  FAKE_CONTEXT(context);
  const std::shared_ptr<Moment> moment = event->moment;
  if (!moment) return CUDA_SUCCESS;
  fake::submit(fake::stream_of(stream, context->device), [moment](double& clock) {
    if (!moment->done) fake::drain(moment->stream);
    if (moment->done && clock < moment->time) clock = moment->time;
    return moment->done;
  });
  return CUDA_SUCCESS;
}

FAKE_API cuStreamGetCtx(CUstream, CUcontext* context) {
  FAKE_ENTER();
  *context = fake::current();
  return CUDA_SUCCESS;
}

FAKE_API cuEventCreate(CUevent* event, unsigned flags) {
  FAKE_ENTER();
  FAKE_CONTEXT(context);
  *event = new CUevent_st{flags, context->device, nullptr};
  ++fake::world().events;
  return CUDA_SUCCESS;
}

FAKE_API cuEventDestroy(CUevent event) {
  FAKE_ENTER();
  delete event;
  --fake::world().events;
  return CUDA_SUCCESS;
}

FAKE_API cuEventRecord(CUevent event, CUstream stream) {
  FAKE_ENTER();
  FAKE_CONTEXT(context);
  CUstream_st* which = fake::stream_of(stream, context->device);
  FAKE_REQUIRE(which->device == event->device, CUDA_ERROR_INVALID_HANDLE);
  const std::shared_ptr<Moment> moment = event->moment = std::make_shared<Moment>();
  moment->stream = which;
  fake::submit(which, [moment](double& clock) {
    moment->time = fake::read_clock(clock);
    moment->done = true;
    return true;
  });
  return CUDA_SUCCESS;
}

FAKE_API cuEventQuery(CUevent event) {
  FAKE_ENTER();
  return fake::query(*event);
}

FAKE_API cuEventSynchronize(CUevent event) {
  FAKE_ENTER();
  const CUresult state = fake::query(*event);
  if (state == CUDA_ERROR_NOT_READY) fake::never_answers(event->device, "cuEventSynchronize");
  return state;
}

FAKE_API cuEventElapsedTime(float* milliseconds, CUevent start, CUevent end) {
  FAKE_ENTER();
  const bool timed = !((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING);
  FAKE_REQUIRE(timed && start->moment && end->moment && start->device == end->device, CUDA_ERROR_INVALID_HANDLE);
  for (const CUevent_st* event : {start, end}) {
    if (const CUresult state = fake::query(*event)) return state;
  }
  *milliseconds = float((end->moment->time - start->moment->time) * 1e3);
  return CUDA_SUCCESS;
}
