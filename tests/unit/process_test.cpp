// Checks if another process lives, and if it runs.
#include "transports/core/process.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace tutti::testing {
namespace {

TEST(ProcessTest, AStoppedProcessLivesButDoesNotRun) {
  const pid_t child = ::fork();
  if (child == 0)
    while (true) ::pause();
  const Descriptor death = process_descriptor(child);
  EXPECT_TRUE(process_lives(child, death.fd()));
  EXPECT_TRUE(process_runs(child));  // a sleeping process counts as running

  int status = 0;
  ::kill(child, SIGSTOP);
  ASSERT_EQ(::waitpid(child, &status, WUNTRACED), child);
  EXPECT_TRUE(process_lives(child, death.fd()));
  EXPECT_FALSE(process_runs(child));

  ::kill(child, SIGCONT);
  ASSERT_EQ(::waitpid(child, &status, WCONTINUED), child);
  EXPECT_TRUE(process_runs(child));

  ::kill(child, SIGKILL);
  siginfo_t info{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);
  EXPECT_FALSE(process_runs(child));  // it is dead, but not waited for
  ::waitpid(child, &status, 0);
  EXPECT_FALSE(process_runs(child));
  EXPECT_FALSE(process_lives(child, death.fd()));
}

TEST(ProcessTest, ItselfRunsAndNobodyDoesNot) {
  EXPECT_TRUE(process_runs(::getpid()));
  EXPECT_FALSE(process_runs(0));
}

TEST(ProcessTest, TheStartTellsAProcessFromALaterOneOfItsNumber) {
  const std::uint64_t own = process_start(::getpid());
  EXPECT_GT(own, 0u);
  EXPECT_EQ(process_start(::getpid()), own);
  EXPECT_LE(process_start(1), own);
  ASSERT_EQ(::prctl(PR_SET_NAME, "a (b) 1 2"), 0);  // /proc shows this name between parentheses
  EXPECT_EQ(process_start(::getpid()), own);
  EXPECT_EQ(process_start(0), 0u);
}

TEST(ProcessTest, IsFoundBehindItsDescriptor) {
  EXPECT_NE(pid_space(), 0u);
  const Descriptor self = process_descriptor(::getpid());
  if (!self) GTEST_SKIP() << "the kernel has no pidfds";
  EXPECT_EQ(process_behind(self.fd()), ::getpid());
  EXPECT_EQ(process_behind(-1), 0);
}

}  // namespace
}  // namespace tutti::testing
