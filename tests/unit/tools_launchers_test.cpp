// What a launcher tells the doctor of the ranks of all hosts: joined with what was found on this one.
#include <gtest/gtest.h>

#include "collectives/doctor/letter.hpp"
#include "tools/doctor/launchers.hpp"

namespace tutti::tools {
namespace {

using doctor::AskedHost;
using doctor::Patient;

constexpr doctor::Time start = 1'700'000'000'000'000'000;

Patient patient(int rank, const std::string& process = "sleeps") {
  Patient one;
  one.recording.rank = rank;
  one.recording.size = 4;
  one.recording.host = "as-it-calls-itself";
  one.recording.staged_at = start;
  one.process = process;
  return one;
}

Frame about(int rank, int told) { return {Say::patient, told, 1, letter_of(patient(rank), 256)}; }
Frame about(const AskedHost& host) { return {Say::host, 0, 1, letter_of(host)}; }

const AskedHost own{.name = "h1", .ranks = {0, 1}, .here = true};
const AskedHost other{.name = "h2", .ranks = {2, 3}, .ahead = 5000, .error = 100};

std::vector<std::pair<int, std::string>> ranks_of(const std::vector<Patient>& patients) {
  std::vector<std::pair<int, std::string>> found;
  for (const Patient& one : patients) found.emplace_back(one.recording.rank, one.recording.host + " " + one.process);
  return found;
}

TEST(launchers, tell_of_all_hosts) {
  Account account;
  for (const int rank : {2, 0, 3, 1}) EXPECT_FALSE(take_answer(about(rank, rank), account));
  EXPECT_FALSE(take_answer(about(own), account));
  EXPECT_FALSE(take_answer(about(other), account));
  EXPECT_TRUE(take_answer({Say::examined, 0, 1, {}}, account));
  const std::vector<Patient> all = joined(account, {patient(0, "was found here"), patient(2, "was found here")});
  EXPECT_EQ(ranks_of(all), (std::vector<std::pair<int, std::string>>{
                               {0, "h1 sleeps"}, {1, "h1 sleeps"}, {2, "h2 sleeps"}, {3, "h2 sleeps"}}));
  EXPECT_EQ(all[1].recording.staged_at, start);
  EXPECT_EQ(all[2].recording.staged_at, start - 5000) << "by the launcher's clock";
}

TEST(launchers, leave_out_letters_that_are_none) {
  Account account;
  take_answer(about(2, 3), account);  // about another rank than it says
  take_answer({Say::patient, 2, 1, "nonsense"}, account);
  take_answer(about(1, 1), account);
  EXPECT_EQ(account.patients.size(), 1u);
  EXPECT_THROW(take_answer({Say::host, 0, 1, "nonsense"}, account), Error);
}

TEST(launchers, have_what_was_found_here_if_only_the_own_agent_is_silent) {
  Account account;
  AskedHost silent = own, lost = other;
  silent.answers = lost.answers = false;
  take_answer(about(silent), account);
  take_answer(about(lost), account);
  EXPECT_EQ(ranks_of(joined(account, {patient(1, "was found here"), patient(2, "was found here")})),
            (std::vector<std::pair<int, std::string>>{{1, "h1 was found here"}}));
}

TEST(launchers, do_not_tell_of_ranks_that_the_job_does_not_have) {
  Account account;
  Patient large = patient(1);
  large.recording.size = 5;
  take_answer({Say::patient, 1, 1, letter_of(large, 256)}, account);
  take_answer(about(3, 3), account);
  take_answer(about(own), account);
  EXPECT_TRUE(joined(account, {}).empty());
}

}  // namespace
}  // namespace tutti::tools
