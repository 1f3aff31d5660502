// Replacements: which failed ranks of an elastic job get a new process, and when.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/run/job.hpp"
#include "tutti/clock.hpp"

namespace tutti::tools {

/// Parses the value of --elastic: "MIN:MAX", or "MIN", with which `most` is 0. Throws Error{invalid}.
Elastic parse_elastic(std::string_view text);

/// The first replacement of a rank starts at once. If a process of the rank fails within `too_soon` of its start, the
/// next one waits, twice as long each time, until a process lives longer.
class Replacements {
 public:
  static constexpr Seconds too_soon{10}, shortest_pause{1}, longest_pause{30};

  /// With elastic.least 0 no rank is replaced. The first processes of the `ranks` ranks start at `now`.
  Replacements(const Elastic& elastic, int ranks, Deadline now);
  bool on() const noexcept { return elastic_.least > 0; }

  /// Notes that the process of a rank has failed. Returns how long its replacement waits, or nothing if the rank gets
  /// none.
  std::optional<Seconds> failed(int rank, Deadline now);
  /// From now on no replacement starts. Returns the ranks whose replacements have been waiting.
  std::vector<int> stop();
  /// The number of replacements that wait for their time.
  int waiting() const noexcept { return static_cast<int>(waiting_.size()); }
  /// The time for take(); `never` if nothing waits.
  Deadline next() const noexcept { return waiting_.empty() ? never : waiting_.begin()->first; }

  struct Start {
    int rank = 0;
    int number = 0;  ///< the value of TUTTI_JOIN
  };
  /// Returns the replacement that has to start now, if there is one.
  std::optional<Start> take(Deadline now);

  /// Returns what a message says after a rank's end; `pause` is what failed() has returned, and `others` is true if the
  /// job has other processes: "the others go on, and a replacement starts in 2 s".
  std::string consequence(std::optional<Seconds> pause, bool others) const;
  /// Returns why the job ends if fewer than elastic.least processes are left.
  std::string too_few(int left) const;
  /// Returns why the job ends if no rank is left that could admit the replacements.
  static std::string nobody_admits();
  /// Returns "2 ranks failed and were replaced (rank 1 twice)"; empty if no replacement was started.
  std::string summary() const;

 private:
  struct Slot {
    Deadline started;
    int quick = 0;     ///< how many processes in a row have failed too soon, without the first of all
    int replaced = 0;  ///< how often
  };
  Slot& slot(int rank) { return slots_[static_cast<std::size_t>(rank)]; }

  const Elastic elastic_;
  std::vector<Slot> slots_;
  std::set<std::pair<Deadline, int>> waiting_;  ///< the time and the rank
  int started_ = 0;
  bool stopped_ = false;
};

}  // namespace tutti::tools
