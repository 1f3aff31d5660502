// Report: what one rank of a scenario has seen. Judged together with those of the others.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tests/chaos/scenario.hpp"
#include "tutti/status.hpp"

namespace tutti::testing {

/// The first failure of a communicator on one rank.
struct GroupEnd {
  int group = 0;  ///< index in Scenario::groups; -1: the job, while it connects
  Code code = Code::ok;
  int culprit = -1;
  std::string text;
};

struct Report {
  std::vector<GroupEnd> ends;
  std::vector<std::string> wrong;  ///< what is wrong whatever the faults are
  bool is_whole = false;           ///< the rank has come to its end
  std::uint64_t members = 0;       ///< a bit for each process with which this one has gone on at the end
  bool is_out = false;             ///< the others have gone on without it, although it lives

  const GroupEnd* end_of(int group) const;
  /// Notes a failure; a later one of the same group must have the same cause.
  void fail(int group, const Error& error, const std::string& where);
};

/// As lines, for another process.
std::string to_lines(const Report& report);
Report report_from(const std::string& lines);

/// How a rank of a process of its own has ended.
struct Fate {
  bool was_killed = false, was_stopped = false;
  std::string other;  ///< any other end than exit code 0
};

/// Returns what is wrong: one line each. `reports` and `fates` are by process.
std::vector<std::string> judge(const Scenario& scenario, const std::vector<Report>& reports,
                               const std::vector<Fate>& fates);

}  // namespace tutti::testing
