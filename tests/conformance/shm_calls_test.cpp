// Collectives over shared memory make no system call while no rank has to sleep. The kernel reports every system call
// of a thread (syscall user dispatch).
#include <gtest/gtest.h>

#include <csignal>
#include <functional>
#include <string>
#include <vector>

#include "collectives/runtime/crowding.hpp"
#include "tests/support/worlds.hpp"
#include "transports/core/host.hpp"
#include "tutti.hpp"

#if defined(__linux__) && defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
#include <sys/prctl.h>
#include <ucontext.h>
#ifdef PR_SET_SYSCALL_USER_DISPATCH
#define TUTTI_TEST_SEES_SYSTEM_CALLS 1
#endif
#endif

namespace tutti::testing {
namespace {

#ifdef TUTTI_TEST_SEES_SYSTEM_CALLS

constexpr char allow = 0, block = 1;          // SYSCALL_DISPATCH_FILTER_ALLOW and _BLOCK of linux/prctl.h
thread_local volatile char selector = allow;  // read by the kernel at each system call
thread_local volatile int seen = -1;          // number of the first system call

// Handles SIGSYS: records the system call, and allows it and all later ones.
void came(int, siginfo_t* about, void* state) {
  seen = about->si_syscall;
  selector = allow;
  static_cast<ucontext_t*>(state)->uc_mcontext.gregs[REG_RIP] -= 2;  // repeats the syscall instruction
}

/// Watches the calling thread. Returns false if the kernel does not support that.
bool watch_this_thread() {
  struct sigaction action {};
  action.sa_sigaction = came;
  action.sa_flags = SA_SIGINFO;
  return ::sigaction(SIGSYS, &action, nullptr) == 0 &&
         ::prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON, 0, 0, &selector) == 0;
}

void watch_no_more() { ::prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_OFF, 0, 0, nullptr); }

/// Returns the number of the first system call that `work` makes, or -1.
template <class Work>
int first_call_of(const Work& work) {
  seen = -1;
  selector = block;
  work();
  selector = allow;
  return seen;
}

using Data = std::vector<float>;
struct Case {
  const char* name;
  std::size_t bytes;
  bool allocated;
  void (*call)(Communicator&, std::span<const float> in, std::span<float> out);
};

// Large scatters are left out, because they use process_vm_readv.
constexpr Case cases[] = {
    {"barrier", 0, false, [](auto& world, auto, auto) { world.barrier().wait(); }},
    {"allreduce", 8, false, [](auto& world, auto, auto out) { world.allreduce(out, sum).wait(); }},
    {"allreduce", 64 << 10, false, [](auto& world, auto, auto out) { world.allreduce(out, sum).wait(); }},
    {"allreduce", 1 << 20, false, [](auto& world, auto in, auto out) { world.allreduce(in, out, sum).wait(); }},
    {"allreduce", 64 << 10, true, [](auto& world, auto, auto out) { world.allreduce(out, sum).wait(); }},
    {"allreduce", 1 << 20, true, [](auto& world, auto, auto out) { world.allreduce(out, sum).wait(); }},
    {"broadcast", 4 << 10, false, [](auto& world, auto, auto out) { world.broadcast(out, 0).wait(); }},
    {"reduce", 64 << 10, false, [](auto& world, auto in, auto out) { world.reduce(in, out, sum, 1).wait(); }},
    {"allgather", 64 << 10, false,
     [](auto& world, auto in, auto out) { world.allgather(in.first(in.size() / 2), out).wait(); }},
    {"reduce_scatter", 64 << 10, false,
     [](auto& world, auto in, auto out) { world.reduce_scatter(in, out.first(out.size() / 2), sum).wait(); }},
    {"alltoall", 64 << 10, false, [](auto& world, auto in, auto out) { world.alltoall(in, out).wait(); }},
};

/// The results of one rank's attempts at a call.
struct Seen {
  int asked = -1;           ///< number of the last system call that was made
  int tries = 0, busy = 0;  ///< failed attempts; of these, with more runnable threads than cores
};

/// Returns true once `in_a_row` calls have completed without a system call on any rank.
bool goes_without(Communicator& world, const std::function<void()>& call, int in_a_row, Seen& so_far) {
  constexpr int tries = 300;  // many, because ranks yield or sleep while another one is preempted
  for (int i = 0; i < 50; ++i) call();
  for (int i = 0; i < tries; ++i) {
    world.barrier().wait();
    const int first = first_call_of([&] {
      for (int k = 0; k < in_a_row; ++k) call();
    });
    if (first >= 0) so_far.asked = first;
    if (world.allreduce(first, max).wait() < 0) return true;
    ++so_far.tries;
    if (RunnableThreads().count() > online_cores()) ++so_far.busy;
  }
  return false;
}

TEST(ShmSystemCalls, NothingIsAskedOfTheKernelWhileNobodySleeps) {
  std::string skipped;
  run_ranks(2, test_settings("shm"), [&](Communicator& world) {
    const bool can = watch_this_thread() && first_call_of([] { static_cast<void>(Clock::now()); }) < 0;
    if (world.allreduce(can ? 1 : 0, min).wait() == 0) {
      if (world.rank() == 0) skipped = "the kernel does not tell of system calls, or the clock is one";
      return watch_no_more();
    }
    for (const Case& one : cases) {
      const std::size_t count = std::max<std::size_t>(one.bytes / sizeof(float), 2);
      const Data in(count, 1);
      Data ordinary(count);
      auto allocated = world.allocate<float>(count);
      const std::span<float> out = one.allocated ? std::span<float>(allocated) : std::span<float>(ordinary);
      const int in_a_row = one.bytes < 1 << 20 ? 20 : 5;  // few enough to take less than one time slice
      Seen seen_here;
      const bool goes = goes_without(
          world, [&] { one.call(world, in, out); }, in_a_row, seen_here);
      // If other programs use the cores, ranks sleep and are woken in every call. The test is then skipped.
      if (world.allreduce(goes || 4 * seen_here.busy < seen_here.tries ? 0 : 1, max).wait() == 1) {
        if (world.rank() == 0) skipped = "other programs use the cores, so ranks sleep";
        break;
      }
      EXPECT_TRUE(goes) << one.name << " of " << one.bytes << (one.allocated ? " allocated" : "") << " bytes on rank "
                        << world.rank() << "; system call number " << seen_here.asked;
    }
    watch_no_more();
  });
  if (!skipped.empty()) GTEST_SKIP() << skipped;
}

#else

TEST(ShmSystemCalls, NothingIsAskedOfTheKernelWhileNobodySleeps) {
  GTEST_SKIP() << "the kernel tells of system calls on x86-64 alone, and not beside ThreadSanitizer";
}

#endif

}  // namespace
}  // namespace tutti::testing
