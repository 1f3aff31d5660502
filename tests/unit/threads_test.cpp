// If the system refuses a thread, the Error names the limit.
#include "tutti/threads.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/support/processes.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tutti/bootstrap.hpp"
#include "tutti/communicator.hpp"
#include "tutti/parameter_server.hpp"
#include "tutti/status.hpp"

namespace tutti {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using testing::Fleet;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using testing::TemporaryFolder;

void write(const std::filesystem::path& file, const std::string& text) {
  std::filesystem::create_directories(file.parent_path());
  std::ofstream(file) << text << "\n";
}

// Starts many threads, because some may reuse the stacks of earlier ones. Returns the error.
std::string refusal() {
  try {
    for (int i = 0; i < 50; ++i) start_thread("counts", [] { ::pause(); }).detach();
  } catch (const Error& error) {
    return std::string(name(error.code())) + ": " + error.what();
  }
  return "started";
}

TEST(Threads, Run) {
  int made = 0;
  start_thread("counts", [&] { made = 7; }).join();
  EXPECT_EQ(made, 7);
}

TEST(Threads, AStackWithoutAddressesNamesTheLimit) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizers map terabytes";
#endif
  Fleet fleet(1, [](int) {
    const rlimit little{1 << 20, 1 << 20};
    rlimit kept{};
    if (::setrlimit(RLIMIT_AS, &little) != 0 || ::getrlimit(RLIMIT_AS, &kept) != 0 || kept.rlim_cur != little.rlim_cur)
      return std::string("no limit");
    return refusal();
  });
  const std::string said = fleet.answer(0);
  if (said == "no limit") GTEST_SKIP() << "RLIMIT_AS cannot be set, as where qemu emulates the processor";
  EXPECT_THAT(said, AllOf(StartsWith("resource: cannot start the thread that counts ("),
                          HasSubstr("into the 1 MiB of address space that this process may have (RLIMIT_AS)"),
                          HasSubstr("ulimit -v")));
}

TEST(Threads, TheUsersLimitIsNamed) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to become a user without processes";
  Fleet fleet(1, [](int) {
    const rlimit one{1, 1};
    if (::setrlimit(RLIMIT_NPROC, &one) != 0 || ::setresuid(64321, 64321, 64321) != 0) return std::string("no limit");
    const auto own = std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});  // 2 under qemu
    return std::to_string(own) + " " + refusal();
  });
  const std::string said = fleet.answer(0);
  EXPECT_THAT(said,
              HasSubstr("there are " + said.substr(0, said.find(' ')) +
                        " processes and threads of this user (RLIMIT_NPROC), where 1 may be: raise it (ulimit -u"));
}

std::string become_a_user_without_threads() {
  const rlimit one{1, 1};
  return ::setrlimit(RLIMIT_NPROC, &one) == 0 && ::setresuid(64321, 64321, 64321) == 0 ? "" : "no limit";
}

template <class Call>
std::string text_of(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return std::string(name(error.code())) + ": " + error.what();
  }
  return "made";
}

TEST(Threads, ACommunicatorsIsRefusedWithTheLimit) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to become a user without processes";
  Fleet fleet(1, [](int) {
    if (const std::string wrong = become_a_user_without_threads(); !wrong.empty()) return wrong;
    return text_of([] { static_cast<void>(Communicator::connect(Bootstrap())); });
  });
  EXPECT_THAT(fleet.answer(0), AllOf(StartsWith("resource: cannot start the thread that goes on with calls"),
                                     HasSubstr("(RLIMIT_NPROC)")));
}

TEST(Threads, AParameterServersIsRefusedWithTheLimit) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to become a user without processes";
  Fleet fleet(1, [](int) {
    auto world = Communicator::connect(Bootstrap());
    auto other = world.dup();
    if (const std::string wrong = become_a_user_without_threads(); !wrong.empty()) return wrong;
    std::string all = text_of([&] { ParameterServer server(world, {}); });
    all += "; " + text_of([&] { ParameterServer server(other, {.silence = 5}); });
    return all + "; " + std::to_string(world.allreduce(7).wait());
  });
  EXPECT_THAT(fleet.answer(0),
              AllOf(StartsWith("resource: cannot start the thread that serves workers"),
                    HasSubstr("resource: cannot start the thread that tells servers"), EndsWith("; 7")));
}

TEST(Threads, TheControlGroupsLimitIsNamed) {
  const TemporaryFolder root;
  const std::filesystem::path at = root.path();
  write(at / "proc/self/cgroup", "0::/job/rank");
  write(at / "proc/loadavg", "0.1 0.2 0.3 1/234 5678");
  write(at / "proc/sys/kernel/threads-max", "5000");
  write(at / "sys/fs/cgroup/job/rank/pids.max", "max");
  write(at / "sys/fs/cgroup/job/rank/pids.current", "20");
  write(at / "sys/fs/cgroup/job/pids.max", "20");
  write(at / "sys/fs/cgroup/job/pids.current", "20");
  EXPECT_THAT(reached_thread_limit(root.path()),
              AllOf(StartsWith("there are 20 processes and threads in the control group "),
                    HasSubstr("/sys/fs/cgroup/job (pids.max), where 20 may be: raise it"), HasSubstr("--pids-limit")));
  write(at / "sys/fs/cgroup/job/pids.current", "19");
  EXPECT_THAT(reached_thread_limit(root.path()),
              AllOf(StartsWith("no limit seems to be reached now"), HasSubstr("20 in the control group"),
                    HasSubstr("5000 on this machine (/proc/sys/kernel/threads-max)")));
  write(at / "proc/loadavg", "0.1 0.2 0.3 1/5000 5678");
  EXPECT_THAT(reached_thread_limit(root.path()), HasSubstr("there are 5000 processes and threads on this machine"));
}

TEST(Threads, TheControlGroupOfVersionOneIsKnown) {
  const TemporaryFolder root;
  const std::filesystem::path at = root.path();
  write(at / "proc/self/cgroup", "9:memory:/x\n8:pids:/docker/1234\n0::/");
  write(at / "sys/fs/cgroup/pids/pids.max", "64");  // a container mounts its own group here
  write(at / "sys/fs/cgroup/pids/pids.current", "64");
  EXPECT_THAT(reached_thread_limit(root.path()), HasSubstr("/sys/fs/cgroup/pids (pids.max), where 64 may be"));
}

}  // namespace
}  // namespace tutti
