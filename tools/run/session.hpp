// Session: what the launcher does from the start of the ranks until all of them have ended.
#pragma once

#include <fmt/core.h>

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tools/run/departures.hpp"
#include "tools/run/ends.hpp"
#include "tools/run/ranks.hpp"
#include "tools/run/replacements.hpp"
#include "tools/run/signals.hpp"

namespace tutti::tools {

class Session {
 public:
  /// All references must outlive this object.
  Session(const Job& job, Signals& signals, Sinks& sinks, Ranks& ranks, Departures& departures)
      : job_(job),
        signals_(signals),
        sinks_(sinks),
        ranks_(ranks),
        departures_(departures),
        all_(static_cast<std::size_t>(job.ranks)),
        running_(job.ranks),
        replacements_(job.elastic, job.ranks, Clock::now()) {}

  /// Returns the exit code, as run_job() does.
  int run();

 private:
  struct Rank {
    bool running = true;
    bool ended_by_us = false;  ///< SIGTERM or SIGKILL was sent to it
    bool replaces = false;     ///< it is a replacement
    bool told = false;         ///< its failure has been reported
    Ended end = {};
  };
  enum class Stage { running, grace, terminated, killed };

  std::optional<Trouble> loop();
  int give_up(const Trouble& trouble);
  void take_signals();
  void end_by(int signal);
  Seconds grace() const;
  void reap();
  void fail_first(std::vector<int>& ended);
  void tell_and_keep_going(int rank);
  bool may_be_replaced(const Ended& end) const;
  void start_replacements();
  void stop_replacements();
  void look_at_the_rest();
  bool takes_part(int rank) const;
  bool waits_to_join(int rank) const;
  std::string end_text(int rank) const;
  void say_last_words(const Ended& end);
  void say_who_is_late();
  void say_who_waits_in_vain();
  bool ended_as_told(const Ended& end) const;
  void next_stage();
  void kill_all(int signal);
  void drain();
  void summarise();
  bool output_is_lost();
  void say(std::string_view line) { sinks_.error().put(fmt::format("tutti run: {}\n", line)); }
  Rank& at(int rank) { return all_[static_cast<std::size_t>(rank)]; }
  bool running() const noexcept { return running_ > 0; }
  /// How many processes run or will be started.
  int processes_left() const noexcept { return running_ + replacements_.waiting(); }

  const Job& job_;
  Signals& signals_;
  Sinks& sinks_;
  Ranks& ranks_;
  Departures& departures_;
  std::vector<Rank> all_;
  int running_;  ///< how many ranks run
  Replacements replacements_;
  Stage stage_ = Stage::running;
  Deadline next_stage_at_ = never;
  Deadline look_again_ = never;  ///< at replacements that may wait in vain
  Deadline limit_ = never;
  std::optional<int> first_failure_;  ///< the rank that failed first, and was not replaced
  bool finished_ = false;             ///< a rank has exited with code 0
  bool only_replacements_ = false;    ///< the others have finished, so those that still run are ended
  bool limit_passed_ = false;
  bool told_to_end_ = false;     ///< a signal has told the job to end
  std::optional<int> ended_by_;  ///< SIGTERM or SIGINT, if it came before a failure and before the time limit
  bool told_of_loss_ = false;
  std::set<int> forwarded_;  ///< the signals that all ranks have been sent
  int interrupts_ = 0;
};

}  // namespace tutti::tools
