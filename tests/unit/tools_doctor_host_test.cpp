// `tutti doctor --host`: how texts of the kernel are read, what numbers mean, how the result is printed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>

#include "tests/support/temporary_folder.hpp"
#include "tools/doctor/between.hpp"
#include "tools/doctor/facts.hpp"
#include "tools/doctor/host_checks.hpp"
#include "tools/doctor/verdicts.hpp"

namespace tutti::tools {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;
using Verdict = Check::Verdict;

constexpr std::uint64_t mib = 1 << 20, gib = 1 << 30;

TEST(DoctorFacts, NumbersOfTexts) {
  EXPECT_EQ(number_in(" 42 kB"), 42u);
  EXPECT_EQ(number_in("max"), std::nullopt);
  EXPECT_EQ(number_in(""), std::nullopt);
  EXPECT_EQ(number_in("99999999999999999999999"), std::nullopt);
  const char* const text = "MemTotal:       24 kB\nMemFree: 3 kB\nXMemFree: 9 kB\nMemAvailable:  x\n";
  EXPECT_EQ(memory_field(text, "MemTotal"), 24u << 10);
  EXPECT_EQ(memory_field(text, "MemFree"), 3u << 10);
  EXPECT_EQ(memory_field(text, "MemAvailable"), std::nullopt);
  EXPECT_EQ(memory_field(text, "Mem"), std::nullopt);
  EXPECT_EQ(chosen_word("always [madvise] never"), "madvise");
  EXPECT_EQ(chosen_word("]["), "");
  EXPECT_EQ(chosen_word("always"), "");
}

TEST(DoctorFacts, TimesOfProcessors) {
  const ProcessorTimes times = processor_times("cpu  10 0 10 70 0 0 0 10 5 5\ncpu0 1 1 1 1\n");
  EXPECT_EQ(times.all, 100u);
  EXPECT_EQ(times.stolen, 10u);
  EXPECT_EQ(processor_times("").all, 0u);
  EXPECT_EQ(processor_times("cpu x").all, 0u);
  EXPECT_EQ(processor_times("intr 1 2").all, 0u);
}

TEST(DoctorFacts, LimitsOfControlGroups) {
  const testing::TemporaryFolder folder;
  const auto put = [&](const std::string& file, const char* text) {
    const std::filesystem::path path = folder.path() + "/" + file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text << "\n";
  };
  put("a/b/memory.max", "max");
  put("a/memory.max", "1000");
  put("a/memory.current", "400");
  put("a/b/pids.max", "20");
  put("a/b/pids.current", "7");
  put("pids/c/pids.max", "5");
  EXPECT_EQ(group_limit("0::/a/b\n", folder.path(), "memory").most, 1000u);
  EXPECT_EQ(group_limit("0::/a/b\n", folder.path(), "memory").now, 400u);
  EXPECT_EQ(group_limit("0::/a/b\n", folder.path(), "pids").now, 7u);
  EXPECT_EQ(group_limit("0::/a/b\n8:pids:/c\n", folder.path(), "pids").most, 5u);
  EXPECT_EQ(group_limit("", folder.path(), "pids").most, std::nullopt);
  EXPECT_EQ(group_limit("nonsense\n1:\n::\n0::a\n", folder.path(), "pids").most, std::nullopt);
}

TEST(DoctorVerdicts, OpenFiles) {
  EXPECT_EQ(judge_open_files(1024, 1 << 20).verdict, Verdict::good);
  EXPECT_EQ(judge_open_files(UINT64_MAX, UINT64_MAX).found,
            "unlimited may be open at once, and up to unlimited on request");
  const Check few = judge_open_files(1024, 1024);
  EXPECT_EQ(few.verdict, Verdict::slower);
  EXPECT_THAT(few.found, HasSubstr("enough for about 480 ranks"));
  EXPECT_EQ(judge_open_files(20, 20).verdict, Verdict::wrong);
}

TEST(DoctorVerdicts, LockedMemoryMattersForRdmaOnly) {
  EXPECT_EQ(judge_locked_memory(64 << 10, false).verdict, Verdict::good);
  EXPECT_EQ(judge_locked_memory(64 << 10, true).verdict, Verdict::wrong);
  EXPECT_EQ(judge_locked_memory(gib, true).verdict, Verdict::slower);
  EXPECT_EQ(judge_locked_memory(UINT64_MAX, true).verdict, Verdict::good);
}

TEST(DoctorVerdicts, Processes) {
  EXPECT_EQ(judge_processes({}, 4).verdict, Verdict::good);
  EXPECT_EQ(judge_processes({30'000, "kernel.pid_max"}, 64).verdict, Verdict::good);
  EXPECT_EQ(judge_processes({100, "pids.max"}, 8).verdict, Verdict::slower);
  EXPECT_EQ(judge_processes({3, "pids.max"}, 8).verdict, Verdict::wrong);
}

TEST(DoctorVerdicts, Cores) {
  CoreFacts facts{.usable = 8, .allowed = 8, .online = 8, .quota = std::numeric_limits<double>::infinity()};
  EXPECT_EQ(judge_cores(facts).verdict, Verdict::good);
  EXPECT_EQ(judge_frequency(facts).verdict, Verdict::good);
  facts.threads_of_core = 2;
  EXPECT_THAT(judge_cores(facts).found, HasSubstr("2 hardware threads"));
  facts.usable = facts.allowed = 2;
  EXPECT_THAT(judge_cores(facts).advice, HasSubstr("taskset"));
  facts = {.usable = 2, .allowed = 8, .online = 8, .quota = 1.5};
  EXPECT_EQ(judge_cores(facts).verdict, Verdict::slower);
  EXPECT_THAT(judge_cores(facts).advice, HasSubstr("quota"));
  facts.governor = "powersave";
  EXPECT_EQ(judge_frequency(facts).verdict, Verdict::slower);
  facts.driver = "intel_pstate";
  EXPECT_EQ(judge_frequency(facts).verdict, Verdict::good);
}

TEST(DoctorVerdicts, NeighboursAndLoad) {
  EXPECT_EQ(judge_load(0.4, 2).verdict, Verdict::good);
  EXPECT_EQ(judge_load(2.4, 2).verdict, Verdict::slower);
  EXPECT_EQ(judge_steal(0, 0.001).verdict, Verdict::good);
  EXPECT_EQ(judge_steal(0.1, 0).verdict, Verdict::slower);
  EXPECT_EQ(judge_steal(0, 0.1).verdict, Verdict::slower);
}

TEST(DoctorVerdicts, Clocks) {
  EXPECT_EQ(judge_clock("tsc", 22).verdict, Verdict::good);
  EXPECT_EQ(judge_clock("hpet", 900).verdict, Verdict::slower);
  EXPECT_EQ(judge_synchronisation(true, true, 0.001).found, "synchronised, to 1 ms");
  EXPECT_EQ(judge_synchronisation(true, false, 0).verdict, Verdict::slower);
  EXPECT_EQ(judge_synchronisation(false, false, 0).verdict, Verdict::good);
}

TEST(DoctorVerdicts, Memory) {
  EXPECT_EQ(judge_memory(20 * gib, 32 * gib, {}).verdict, Verdict::good);
  EXPECT_EQ(judge_memory(20 * gib, 32 * gib, {2 * gib, 2 * gib}).verdict, Verdict::wrong);
  EXPECT_EQ(judge_memory(20 * gib, 32 * gib, {2 * gib, 3 * gib}).verdict, Verdict::wrong);
  EXPECT_EQ(judge_memory(20 * gib, 32 * gib, {64 * gib, 64 * gib}).verdict, Verdict::good);  // no less than there is
  EXPECT_EQ(judge_memory(512 * mib, 32 * gib, {}).verdict, Verdict::slower);
  EXPECT_EQ(judge_shared_space("/dev/shm", mib, true).verdict, Verdict::good);
  EXPECT_EQ(judge_shared_space("/dev/shm", mib, false).verdict, Verdict::wrong);
  EXPECT_EQ(judge_shared_space("/dev/shm", 32 * mib, false).verdict, Verdict::slower);
  EXPECT_EQ(judge_huge_pages("never", "").verdict, Verdict::slower);
  EXPECT_EQ(judge_huge_pages("always", "never").verdict, Verdict::good);
  EXPECT_EQ(judge_huge_pages("", "").verdict, Verdict::good);
}

TEST(DoctorVerdicts, KernelAndNetwork) {
  EXPECT_EQ(judge_kernel("6.18.1-x").verdict, Verdict::good);
  EXPECT_EQ(judge_kernel("5.10.0").verdict, Verdict::slower);
  EXPECT_EQ(judge_kernel("strange").verdict, Verdict::good);
  EXPECT_EQ(judge_tcp_buffers("4096\t131072\t6291456", "4096 16384 4194304").verdict, Verdict::good);
  EXPECT_EQ(judge_tcp_buffers("4096 131072 6291456", "4096 16384 65536").verdict, Verdict::slower);
  EXPECT_EQ(judge_tcp_buffers("", "x").verdict, Verdict::good);
  EXPECT_EQ(judge_backlog(128).verdict, Verdict::slower);
  EXPECT_EQ(judge_ports("32768\t60999").found, "28232 for new connections, 32768 to 60999");
  EXPECT_EQ(judge_ports("60000 60999").verdict, Verdict::slower);
  EXPECT_EQ(judge_ports("9 1").verdict, Verdict::good);
  EXPECT_EQ(judge_attach(0, "1").verdict, Verdict::good);
  EXPECT_THAT(judge_attach(EPERM, "1").advice, HasSubstr("ptrace_scope=0"));
  EXPECT_THAT(judge_attach(EPERM, "").advice, HasSubstr("SYS_PTRACE"));
}

TEST(DoctorBetween, Directions) {
  const Knock open{"10.0.0.2", 0.0002, {}, false}, dropped{"10.0.0.2", 0, "no answer", true};
  const Knock refused{"192.168.0.2", 0, "Connection refused", false};
  const Check good = judge_direction("here", "n7", {open}, "");
  EXPECT_EQ(good.verdict, Verdict::good);
  EXPECT_EQ(good.what, "tcp here -> n7");
  EXPECT_EQ(good.found, "10.0.0.2 in 0.20 ms");
  const Check half = judge_direction("here", "n7", {open, refused}, "");
  EXPECT_EQ(half.verdict, Verdict::slower);
  EXPECT_EQ(half.found, "10.0.0.2 in 0.20 ms; not 192.168.0.2: Connection refused");
  const Check closed = judge_direction("n7", "here", {dropped}, "32768-60999");
  EXPECT_EQ(closed.verdict, Verdict::wrong);
  EXPECT_THAT(closed.advice,
              StartsWith("A firewall or a missing route blocks the way from n7 to here: allow TCP to ports"));
  EXPECT_THAT(judge_direction("n7", "here", {refused}, "").advice, StartsWith("A firewall refuses"));
  EXPECT_EQ(judge_direction("n7", "here", {}, "").verdict, Verdict::wrong);
}

TEST(DoctorBetween, ListsOfHosts) {
  EXPECT_THAT(split_hosts(""), IsEmpty());
  EXPECT_THAT(split_hosts("h1,[fd00::1],me@h2"), ElementsAre("h1", "[fd00::1]", "me@h2"));
  EXPECT_THAT(split_hosts("h1,"), ElementsAre("h1"));
}

TEST(DoctorBetween, Times) {
  EXPECT_EQ(judge_time("n7", 0.01, 0.001).verdict, Verdict::good);
  EXPECT_EQ(judge_time("n7", -3, 0.001).verdict, Verdict::slower);
  EXPECT_THAT(judge_time("n7", -3, 0.001).found, StartsWith("3 s behind"));
  EXPECT_EQ(judge_time("n7", 3, 4).verdict, Verdict::good);  // nothing is known
}

TEST(DoctorBetween, DoorsShowTheirToken) {
  const Door door("abc");
  EXPECT_EQ(knock("nonsense", door.port(), "abc", deadline_in(Seconds(1))).why, "is no address");
  // The backlog accepts the connection; nobody serves it before the deadline.
  EXPECT_THAT(knock("127.0.0.1", door.port(), "abc", deadline_in(Seconds(0.05))).why, Not(IsEmpty()));
}

TEST(DoctorBetween, Lines) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_NONBLOCK | O_CLOEXEC), 0);
  const Descriptor from(ends[0]);
  Descriptor to(ends[1]);
  LineReader lines(from.fd());
  EXPECT_EQ(lines.next(), std::nullopt);
  ASSERT_EQ(::write(to.fd(), "a b\nc", 5), 5);
  EXPECT_EQ(lines.next(), "a b");
  EXPECT_EQ(lines.next(), std::nullopt);
  EXPECT_FALSE(lines.ended());
  to.reset();
  EXPECT_EQ(lines.next(), std::nullopt);
  EXPECT_TRUE(lines.ended());
  EXPECT_THAT(words_of("  listening 12  -\t"), ElementsAre("listening", "12", "-"));
}

TEST(DoctorPrints, TableAndJson) {
  const Check checks[] = {{Verdict::good, "cores", "2 of 2", ""},
                          {Verdict::wrong, "open files", "say \"few\"\n", "Raise it."}};
  EXPECT_EQ(checks_text(checks),
            "verdict check       found here\n"
            "good    cores       2 of 2\n"
            "wrong   open files  say \"few\"\\n\n"
            "                    -> Raise it.\n"
            "\n2 checks: 1 good, 0 slower, 1 wrong\n");
  EXPECT_EQ(checks_json(checks),
            "[\n  {\"check\": \"cores\", \"verdict\": \"good\", \"found\": \"2 of 2\", \"advice\": \"\"},"
            "\n  {\"check\": \"open files\", \"verdict\": \"wrong\", \"found\": \"say \\\"few\\\"\\\\n\", \"advice\": "
            "\"Raise it.\"}\n]\n");
  EXPECT_EQ(checks_json({}), "[\n]\n");
}

TEST(DoctorHost, ThisOne) {
  const std::vector<Check> checks = check_host(Settings{});
  EXPECT_GT(checks.size(), 20u);
  for (const Check& check : checks) {
    EXPECT_THAT(check.what, Not(IsEmpty()));
    EXPECT_THAT(check.found, Not(IsEmpty())) << check.what;
    EXPECT_EQ(check.advice.empty(), check.verdict == Verdict::good) << check.what << ": " << check.found;
  }
}

}  // namespace
}  // namespace tutti::tools
