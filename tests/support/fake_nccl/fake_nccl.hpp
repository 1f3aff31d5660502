// A libnccl.so.2 for tests, over host memory. It has NCCL's function names; ranks are processes or threads; data goes
// through shared memory; work is done on the streams of a given runtime, so that a missing order becomes visible.
//
// A device plays what was launched on it as a busy GPU may: one call after the other, in the order of the launches. So
// ranks that launch two communicators' calls in different orders wait for one another for ever.
//
// A call in progress belongs to the thread that made it, as in NCCL 2.19 to 2.25, until another call on the
// communicator finishes it (ncclCommGetAsyncError() does not). If a thread leaves calls unfinished, NCCL would fail
// later; the fake refuses at once.
//
// Environment variables (RANK is the communicator's, CALL counts from 0 per communicator):
//   FAKE_NCCL_VERSION=22703      the version that it reports
//   FAKE_NCCL_REFUSE=TEXT        no communicator is made, for that reason
//   FAKE_NCCL_STALL=RANK         that rank never gets its communicator
//   FAKE_NCCL_FAIL=RANK:CALL     that call fails while it is in flight
//   FAKE_NCCL_HANG=RANK:CALL     that call never ends, until it is aborted
//   FAKE_NCCL_LATE=RANK:CALL     that call ends 5 ms after its data has come and gone
//   FAKE_NCCL_SLOW_LAUNCH=MS     every launch is in progress for MS to 7 MS milliseconds, then on the device
//   FAKE_NCCL_SLOW_ABORT=SECONDS ncclCommAbort() takes so long
//   NCCL_MULTI_RANK_GPU_ENABLE=1 as in NCCL: several ranks of a communicator may share a device
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

namespace fake_nccl {

/// The runtime whose streams the caller passes to the fake.
struct Runtime {
  void (*enqueue)(void* stream, std::function<void()> work);
  int (*current_device)();
  std::byte* (*seen)(const void* memory);  ///< the address that the work uses
};

}  // namespace fake_nccl

extern "C" {
/// Call it before all other functions. `runtime` must stay valid.
void fake_nccl_use(const fake_nccl::Runtime* runtime);
/// Writes up to `most` names of the communicators whose calls were launched on the device, in launch order. Returns the
/// number of launches.
std::size_t fake_nccl_launches(int device, std::uint64_t* names, std::size_t most);
/// Returns the number of communicators that were neither destroyed nor aborted.
int fake_nccl_alive();
}
