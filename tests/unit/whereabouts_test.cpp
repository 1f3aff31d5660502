// What a process is doing, as another one sees it: children of this test that compute, sleep, wait, are stopped or
// gone.
#include "collectives/doctor/whereabouts.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <functional>
#include <thread>

#include "collectives/doctor/memory_map.hpp"
#include "collectives/doctor/sample.hpp"
#include "collectives/doctor/unwind.hpp"
#include "transports/core/process.hpp"
#include "tutti/clock.hpp"

// Functions in the namespace tutti count as the library's, so these are outside of it.
namespace training {

/// What a child computes with: the parent can end it, without a signal, which a sanitizer would keep back.
volatile int* const go_on =
    static_cast<int*>(::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));

/// Calls nothing, not even a sanitizer.
__attribute__((noinline, no_sanitize("thread", "address", "undefined"))) void compute_for_ever(int) {
  for (volatile std::uint64_t number = 0; *go_on != 0;) number = number + 1;
}

[[gnu::noinline]] void rest(double seconds) {
  timespec length{static_cast<time_t>(seconds), static_cast<long>((seconds - static_cast<time_t>(seconds)) * 1e9)};
  while (nanosleep(&length, &length) != 0) {
  }
  std::atomic_signal_fence(std::memory_order_seq_cst);  // so that the call is none that ends the function
}

[[gnu::noinline]] char wait_for_letter(int pipe) {
  char letter = 0;
  while (read(pipe, &letter, 1) < 0) {
  }
  return letter;
}

[[gnu::noinline]] int compare_slowly(const void* a, const void* b) {
  rest(100);
  return *static_cast<const char*>(a) - *static_cast<const char*>(b);
}

}  // namespace training

namespace tutti::testing {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;
using State = Whereabouts::State;

/// A child of this process, with a pipe in each direction.
class Child {
 public:
  /// `body` gets the descriptors to read from and to write to.
  explicit Child(const std::function<void(int, int)>& body) {
    int down[2], up[2];
    if (::pipe(down) != 0 || ::pipe(up) != 0) throw std::runtime_error("no pipes");
    pid_ = ::fork();
    if (pid_ == 0) {
      ::close(down[1]);
      ::close(up[0]);
      body(down[0], up[1]);
      ::_exit(0);
    }
    ::close(down[0]);
    ::close(up[1]);
    down_ = down[1];
    up_ = up[0];
  }
  Child(const Child&) = delete;
  ~Child() {
    ::close(down_);
    ::close(up_);
    if (reaped_) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

  pid_t pid() const { return pid_; }
  void say(char letter) const { EXPECT_EQ(::write(down_, &letter, 1), 1); }
  /// The next letter of the child; 0 if none comes in 20 s.
  char answer() const {
    char letter = 0;
    pollfd ready{up_, POLLIN, 0};
    return ::poll(&ready, 1, 20'000) == 1 && ::read(up_, &letter, 1) == 1 ? letter : '\0';
  }
  int exit_status() {
    int status = -1;
    EXPECT_EQ(::waitpid(pid_, &status, 0), pid_);
    reaped_ = true;
    return status;
  }

 private:
  pid_t pid_ = -1;
  int down_ = -1, up_ = -1;
  bool reaped_ = false;
};

void put(int pipe, char letter) {
  if (::write(pipe, &letter, 1) != 1) ::_exit(9);
}

/// Looks until the process is in this state, as it takes a while to fall asleep.
Whereabouts look_until(pid_t pid, State state) {
  Whereabouts found = whereabouts_of(pid);
  for (const Deadline until = deadline_in(Seconds(10)); found.state != state && Clock::now() < until;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    found = whereabouts_of(pid);
  }
  return found;
}

char state_letter(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(file, text);
  const std::size_t end = text.rfind(')');
  return end == text.npos ? '?' : text.at(end + 2);
}

/// Why this process may not look at its children; empty if it may. An emulator of processors has no ptrace.
std::string why_blind() {
  const Child child([](int in, int) { training::wait_for_letter(in); });
  const Whereabouts found = look_until(child.pid(), State::sleeping);
  if (found.state != State::sleeping) return "/proc does not tell the state of a process";
  if (found.place.find(" in qemu") != std::string::npos) return "an emulator of the processor is seen instead";
  return found.place.empty() ? "this process may not inspect others" : "";
}

class Looking : public ::testing::Test {
 protected:
  void SetUp() override {
    *training::go_on = 1;
    static const std::string why = why_blind();
    if (!why.empty()) GTEST_SKIP() << why;
  }
};

TEST_F(Looking, AtOneThatComputes) {
  const Child child([](int in, int out) {
    put(out, 'a');
    training::compute_for_ever(1);
    put(out, training::wait_for_letter(in));
  });
  ASSERT_EQ(child.answer(), 'a');
  for (int look = 0; look < 20; ++look) {
    const Whereabouts found = look_until(child.pid(), State::running);
    EXPECT_THAT(found.place, StartsWith("training::compute_for_ever()+0x"));
    EXPECT_THAT(found.place, HasSubstr(" in whereabouts_"));
    EXPECT_THAT(found.call, IsEmpty());
    EXPECT_THAT(describe(found), StartsWith("computes at training::compute_for_ever()+0x"));
  }
  *training::go_on = 0;
  child.say('b');
  EXPECT_EQ(child.answer(), 'b');
}

TEST_F(Looking, AtOneThatSleepsDoesNotCutItsSleep) {
  Child child([](int, int out) {
    put(out, 'a');
    training::rest(1.0);
    put(out, 'b');
  });
  ASSERT_EQ(child.answer(), 'a');
  const Deadline began = Clock::now();
  const Whereabouts found = look_until(child.pid(), State::sleeping);
  EXPECT_THAT(found.call, AnyOf("clock_nanosleep", "nanosleep"));
  EXPECT_THAT(found.place, StartsWith("training::rest()+0x"));
  EXPECT_THAT(describe(found), StartsWith("sleeps in " + found.call + ", called from training::rest()+0x"));
  ::kill(child.pid(), SIGSTOP);
  EXPECT_THAT(look_until(child.pid(), State::stopped).place, StartsWith("training::rest()+0x"));
  ::kill(child.pid(), SIGCONT);  // the kernel then resumes the call under another name
  EXPECT_EQ(look_until(child.pid(), State::sleeping).call, "clock_nanosleep");
  EXPECT_EQ(child.answer(), 'b');
  EXPECT_GT(Clock::now() - began, std::chrono::milliseconds(900));
  EXPECT_EQ(child.exit_status(), 0);
}

TEST_F(Looking, AtOneThatReadsAPipe) {
  const Child child([](int in, int out) { put(out, training::wait_for_letter(in)); });
  const Whereabouts found = look_until(child.pid(), State::sleeping);
  EXPECT_EQ(found.call, "read");
  EXPECT_EQ(found.file, "a pipe");
  EXPECT_THAT(found.place, StartsWith("training::wait_for_letter()+0x"));
  EXPECT_THAT(describe(found), StartsWith("waits in read of a pipe, called from training::wait_for_letter()+0x"));
  child.say('x');
  EXPECT_EQ(child.answer(), 'x');
}

TEST_F(Looking, AtOneThatALibraryCallsBack) {
  const Child child([](int, int) {
    char letters[] = "ba";
    ::qsort(letters, 2, 1, training::compare_slowly);
  });
  const Whereabouts found = look_until(child.pid(), State::sleeping);
  EXPECT_THAT(found.place, StartsWith("training::rest()+0x"));
}

TEST_F(Looking, UnwindsToTheStart) {
  const Child child([](int, int out) {
    put(out, 'a');
    training::compute_for_ever(1);
  });
  ASSERT_EQ(child.answer(), 'a');
  std::ifstream file("/proc/" + std::to_string(child.pid()) + "/maps");
  const auto maps = doctor::parse_maps(std::string((std::istreambuf_iterator<char>(file)), {}));
  const doctor::Sample sample = doctor::look_at_running(child.pid(), maps);
  ASSERT_TRUE(sample.known);
  bool complete = false;
  const auto active = doctor::unwind(child.pid(), maps, sample, complete);
  EXPECT_TRUE(complete);
  EXPECT_GT(active.size(), 10u);  // this function, GoogleTest, main(), what calls it
  EXPECT_EQ(active[0].at, sample.at);
}

TEST_F(Looking, AtAStoppedOneLeavesItStopped) {
  const Child child([](int in, int out) {
    put(out, 'a');
    training::compute_for_ever(1);
    put(out, training::wait_for_letter(in));
  });
  ASSERT_EQ(child.answer(), 'a');
  look_until(child.pid(), State::running);
  ::kill(child.pid(), SIGSTOP);
  int status = 0;
  ASSERT_EQ(::waitpid(child.pid(), &status, WUNTRACED), child.pid());
  for (int look = 0; look < 3; ++look) {
    const Whereabouts found = whereabouts_of(child.pid());
    EXPECT_EQ(found.state, State::stopped);
    EXPECT_THAT(found.place, StartsWith("training::compute_for_ever()+0x"));
    EXPECT_THAT(describe(found), StartsWith("is stopped by a signal, at training::compute_for_ever()+0x"));
    EXPECT_EQ(state_letter(child.pid()), 'T');
  }
  ::kill(child.pid(), SIGCONT);
  EXPECT_EQ(look_until(child.pid(), State::running).state, State::running);
}

TEST_F(Looking, AtAThreadThatComputesWhileTheMainThreadWaits) {
  const Child child([](int, int out) {
    std::thread worker([&] {
      ::pthread_setname_np(::pthread_self(), "loader");
      put(out, 'a');
      training::compute_for_ever(1);
    });
    worker.join();
  });
  ASSERT_EQ(child.answer(), 'a');
  Whereabouts found;
  // The thread may still be writing its letter.
  for (const Deadline until = deadline_in(Seconds(10));
       found.beside.find("compute_for_ever") == std::string::npos && Clock::now() < until;)
    found = look_until(child.pid(), State::sleeping);
  EXPECT_EQ(found.call, "futex");
  EXPECT_THAT(found.beside, HasSubstr("(loader) computes at training::compute_for_ever()+0x"));
  EXPECT_THAT(describe(found), HasSubstr(", while its thread "));
}

TEST_F(Looking, DoesNotTakeSignalsAway) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the sanitizer keeps signals back";
#endif
  static volatile sig_atomic_t seen = 0;
  const Child child([](int, int out) {
    ::signal(SIGUSR1, [](int) { seen = seen + 1; });
    put(out, 'a');
    while (seen < 50) {
    }
    put(out, 'b');
  });
  ASSERT_EQ(child.answer(), 'a');
  std::atomic<bool> done = false;
  std::thread looker([&] {
    while (!done) whereabouts_of(child.pid());
  });
  for (int i = 0; i < 50; ++i) {
    ::kill(child.pid(), SIGUSR1);
    for (const Deadline until = deadline_in(Seconds(1)); Clock::now() < until;) {
      std::ifstream file("/proc/" + std::to_string(child.pid()) + "/status");
      std::string text((std::istreambuf_iterator<char>(file)), {});
      if (text.find("ShdPnd:\t0000000000000000") != text.npos) break;  // it has the signal
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  EXPECT_EQ(child.answer(), 'b');
  done = true;
  looker.join();
}

TEST(WhereaboutsTest, AZombieAndOneThatIsGone) {
  Child child([](int, int) {});
  const pid_t pid = child.pid();
  siginfo_t info{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT), 0);
  if (state_letter(pid) != 'Z') GTEST_SKIP() << "/proc does not tell the state of a process";
  EXPECT_EQ(whereabouts_of(pid).state, State::zombie);
  EXPECT_THAT(describe(whereabouts_of(pid)), StartsWith("has ended"));
  EXPECT_EQ(child.exit_status(), 0);  // nobody else has taken it
  EXPECT_EQ(describe(whereabouts_of(pid)), "is gone");
  EXPECT_EQ(whereabouts_of(0).state, State::gone);
  EXPECT_EQ(whereabouts_of(-1).state, State::gone);
}

TEST(WhereaboutsTest, ItselfIsNoError) { EXPECT_THAT(describe(whereabouts_of(::getpid())), ::testing::Not(IsEmpty())); }

}  // namespace
}  // namespace tutti::testing
