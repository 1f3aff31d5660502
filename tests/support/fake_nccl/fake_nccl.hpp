// A libnccl.so.2 for tests, over host memory: NCCL's own names, ranks that are processes or threads, data through
// shared memory, work done on the streams of the runtime that it is told of, so that what is not ordered shows.
//
// A device plays what was launched on it as a busy GPU may: one call after the other, in the order of the launches. So
// ranks that launch two communicators' calls in different orders wait for one another for ever.
//
// What is in progress belongs to the thread that asked for it, as in NCCL 2.19 to 2.25, until a call on the
// communicator finishes it, of which ncclCommGetAsyncError() is none: where NCCL would run into what is left, the fake
// refuses.
//
// Told by the environment (RANK is the communicator's, CALL counts from 0 per communicator):
//   FAKE_NCCL_VERSION=22703      what it says it is
//   FAKE_NCCL_REFUSE=TEXT        no communicator is made, for that reason
//   FAKE_NCCL_STALL=RANK         that rank never gets its communicator
//   FAKE_NCCL_FAIL=RANK:CALL     that call fails while it is under way
//   FAKE_NCCL_HANG=RANK:CALL     that call never ends, until it is aborted
//   FAKE_NCCL_LATE=RANK:CALL     that call ends 5 ms after its data has come and gone
//   FAKE_NCCL_SLOW_LAUNCH=MS     every launch is in progress for MS to 7 MS milliseconds, then on the device
//   FAKE_NCCL_SLOW_ABORT=SECONDS ncclCommAbort() takes so long
//   NCCL_MULTI_RANK_GPU_ENABLE=1 as the real one's: several ranks of a communicator may share a device
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

namespace fake_nccl {

/// The runtime whose streams are handed to the fake.
struct Runtime {
  void (*enqueue)(void* stream, std::function<void()> work);
  int (*current_device)();
  std::byte* (*seen)(const void* memory);  ///< where the work finds it
};

}  // namespace fake_nccl

extern "C" {
/// Before anything else; `runtime` stays.
void fake_nccl_use(const fake_nccl::Runtime* runtime);
/// Up to `most` names of the communicators whose calls were launched on the device, in their order; how many there
/// were.
std::size_t fake_nccl_launches(int device, std::uint64_t* names, std::size_t most);
/// Communicators that have not been destroyed or aborted.
int fake_nccl_alive();
}
