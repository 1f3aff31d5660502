// The benchmark's way of running other programs: their output, how they end, and that a silent program does not delay
// it.
#include <gtest/gtest.h>

#include "benchmarks/versus/subprocess.hpp"

namespace tutti::bench {
namespace {

constexpr double patient = 60;

Outcome shell(const std::string& script, double patience = patient) {
  return run_to_end({{"sh", "-c", script}, {{"FROM_THE_TEST", "one word"}}}, patience);
}

TEST(Subprocess, GivesBothStreamsAndTheExitCode) {
  const Outcome outcome = shell("echo \"$FROM_THE_TEST\"; echo no >&2; exit 5");
  EXPECT_EQ(outcome.out, "one word\n");
  EXPECT_EQ(outcome.err, "no\n");
  EXPECT_EQ(outcome.exit_code, 5);
  EXPECT_FALSE(outcome.ok());
  EXPECT_TRUE(shell("true").ok());
}

TEST(Subprocess, ReadsMoreThanAPipeHolds) {
  const Outcome outcome = shell("head -c 1000000 /dev/zero >&2; head -c 1000000 /dev/zero");
  EXPECT_EQ(outcome.out.size(), 1000000u);
  EXPECT_EQ(outcome.err.size(), 1000000u);
}

TEST(Subprocess, LeavesNothingToRead) { EXPECT_EQ(shell("cat; echo end").out, "end\n"); }

TEST(Subprocess, EndsWhoeverIsSilent) {
  const Outcome outcome = shell("echo first words; sleep 600 & sleep 600", 0.3);
  EXPECT_EQ(outcome.out, "first words\n");
  EXPECT_TRUE(outcome.silent);
  EXPECT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.why(), "it printed nothing for too long and was ended, \"first words\"");
}

TEST(Subprocess, SaysWhy) {
  EXPECT_EQ(shell("echo -----; echo '  the disk is full'; exit 3").why(), "exit code 3, \"the disk is full\"");
  EXPECT_EQ(shell("echo out; echo the disk is full >&2; exit 3").why(), "exit code 3, \"the disk is full\"");
  EXPECT_EQ(shell("kill -9 $$").why(), "it was killed by signal 9");
  const Outcome missing = run_to_end({{"no-program-of-this-name"}, {}}, patient);
  EXPECT_EQ(missing.why(), "exit code 127, \"no-program-of-this-name: No such file or directory\"");
}

TEST(Subprocess, FindsPrograms) {
  EXPECT_TRUE(find_executable("sh").ends_with("/sh"));
  EXPECT_EQ(find_executable("no-program-of-this-name"), "");
  EXPECT_EQ(find_executable("/etc/passwd"), "");  // not executable
  EXPECT_EQ(find_executable("/bin"), "");
  EXPECT_EQ(find_executable(""), "");
}

}  // namespace
}  // namespace tutti::bench
