#include "tests/chaos/report.hpp"

#include <algorithm>
#include <sstream>

namespace tutti::testing {
namespace {

std::string one_line(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  return text;
}

std::string said_by(int rank, const GroupEnd& end) {
  const std::string whose = end.group < 0 ? "connecting" : "group " + std::to_string(end.group);
  return "rank " + std::to_string(rank) + ", " + whose + ": " + std::string(name(end.code)) + ", culprit " +
         std::to_string(end.culprit) + ": " + end.text;
}

/// Judges the failures of one scenario.
class Judge {
 public:
  Judge(const Scenario& scenario, const std::vector<Report>& reports, const std::vector<Fate>& fates)
      : scenario_(scenario), reports_(reports), fates_(fates) {}

  std::vector<std::string> run() {
    for (int process = 0; process < scenario_.processes_in_all(); ++process) judge_rank(process);
    if (scenario_.shrinks) judge_members();
    for (int group = 0; group < static_cast<int>(scenario_.groups.size()); ++group) judge_agreement(group);
    return std::move(wrong_);
  }

 private:
  void say(std::string what) { wrong_.push_back(one_line(std::move(what))); }
  bool died(int rank) const {
    const Fate& fate = fates_[static_cast<std::size_t>(rank)];
    return fate.was_killed || fate.was_stopped;
  }

  void judge_rank(int rank) {
    const Report& report = reports_[static_cast<std::size_t>(rank)];
    const Fate& fate = fates_[static_cast<std::size_t>(rank)];
    const std::string who = "rank " + std::to_string(rank);
    for (const std::string& what : report.wrong) say(who + ": " + what);
    if (!fate.other.empty()) say(who + " " + fate.other);
    if (fate.was_killed && scenario_.chaos.kill.rank != rank && scenario_.late.process != rank)
      say(who + " was killed, but was not to be");
    if (fate.was_stopped && scenario_.chaos.stop.rank != rank) say(who + " was stopped, but was not to be");
    if (!report.is_whole && !died(rank)) say(who + " has not come to its end");
    for (const GroupEnd& end : report.ends) {
      const std::string why = objection(rank, end);
      if (!why.empty()) say(said_by(rank, end) + " [" + why + "]");
    }
  }

  /// All that live at the end have gone on together, and with nobody else but those that have died since.
  void judge_members() {
    std::uint64_t alive = 0, dead = 0;
    const int processes = scenario_.processes_in_all();
    for (int one = 0; one < processes; ++one) {
      const Report& report = reports_[static_cast<std::size_t>(one)];
      if (died(one) || report.is_out)
        dead |= std::uint64_t{1} << one;
      else
        alive |= std::uint64_t{1} << one;
    }
    for (int one = 0; one < processes; ++one) {
      const std::uint64_t members = reports_[static_cast<std::size_t>(one)].members;
      if ((alive >> one & 1) != 0 && ((alive & ~members) != 0 || (members & ~(alive | dead)) != 0))
        say("process " + std::to_string(one) + " has gone on with " + listed(members) +
            ", but these live: " + listed(alive));
    }
  }

  static std::string listed(std::uint64_t processes) {
    std::string text;
    for (int one = 0; processes >> one != 0; ++one)
      if ((processes >> one & 1) != 0) text += (text.empty() ? "" : ", ") + std::to_string(one);
    return text.empty() ? "nobody" : text;
  }

  /// Returns why this failure may not be, or "".
  std::string objection(int rank, const GroupEnd& end) const {
    const Chaos& chaos = scenario_.chaos;
    if (scenario_.refuses_memory()) return objection_without_memory(end);
    if (!scenario_.is_deadly()) return "there is no fault that may fail a call";
    if (chaos.stop.rank >= 0) return objection_to_timeout(end, chaos.stop.rank);
    if (end.code != Code::peer_lost) return "a lost rank is peer_lost";
    if (rank == chaos.lose.rank) return "";  // it lives, and sees that others close their links with it
    const int a = chaos.cut.a >= 0 ? chaos.cut.a : std::max(chaos.kill.rank, chaos.lose.rank);
    const int b = chaos.cut.a >= 0 ? chaos.cut.b : a;
    if (end.culprit != a && end.culprit != b) return "another rank is the culprit";
    if (end.group >= 0 && scenario_.groups[static_cast<std::size_t>(end.group)].rank_of(end.culprit) < 0)
      return "the culprit is not in this group";
    return "";
  }

  /// A rank without memory fails; while the job connects, the others may just see that it does not come.
  std::string objection_without_memory(const GroupEnd& end) const {
    if (end.code == Code::resource) return "";
    if (end.group >= 0) return "memory was refused, nothing else";
    const bool is_named =
        end.culprit >= 0 && end.culprit < scenario_.ranks &&
        std::ranges::count(reports_[static_cast<std::size_t>(end.culprit)].ends, Code::resource, &GroupEnd::code) > 0;
    return is_named ? "" : "that rank has memory";
  }

  std::string objection_to_timeout(const GroupEnd& end, int stopped) const {
    if (end.code != Code::timeout) return "a stopped rank is a timeout";
    if (end.culprit == stopped || names(end.text, stopped)) return "";
    // A message waits for its own sender or receiver, which may wait for the stopped rank in turn.
    const bool is_message = mentions(end, "does that rank make the counterpart");
    return is_message || waits_for(stopped, end) ? "" : "it does not name the rank";
  }

  /// True if the culprit has failed, too, in a call that waited for the stopped rank.
  bool waits_for(int stopped, const GroupEnd& end) const {
    if (end.culprit < 0 || end.culprit >= scenario_.ranks) return false;
    return std::ranges::any_of(reports_[static_cast<std::size_t>(end.culprit)].ends, [&](const GroupEnd& its) {
      return its.group != end.group && (its.culprit == stopped || names(its.text, stopped));
    });
  }

  /// True if the text has the rank in a list of ranks: "rank 1", "ranks 0, 1".
  static bool names(const std::string& text, int rank) {
    const std::string number = std::to_string(rank);
    for (std::size_t at = text.find("rank"); at != std::string::npos; at = text.find("rank", at + 1)) {
      std::size_t next = at + (text.compare(at, 5, "ranks") == 0 ? 5 : 4);
      while (next < text.size() && (text[next] == ' ' || text[next] == ',')) {
        std::size_t end = ++next;
        while (end < text.size() && text[end] >= '0' && text[end] <= '9') ++end;
        if (text.compare(next, end - next, number) == 0) return true;
        if (end > next) next = end;
      }
    }
    return false;
  }

  static bool mentions(const GroupEnd& end, const std::string& what) {
    return end.text.find(what) != std::string::npos;
  }

  /// All ranks whose communicator has failed give the same cause. Where ranks fail independently there may be two: the
  /// ends of a link that is cut both live, and each reports the other one; several deadlines may pass at once; several
  /// ranks may be without memory; and a rank that lives although it is lost may see only that others close their links
  /// with it.
  void judge_agreement(int group) {
    if (scenario_.chaos.cut.a >= 0 || scenario_.chaos.stop.rank >= 0 || scenario_.refuses_memory()) return;
    const GroupEnd* first = nullptr;
    int first_rank = -1;
    for (int rank = 0; rank < scenario_.ranks; ++rank) {
      const GroupEnd* const end = reports_[static_cast<std::size_t>(rank)].end_of(group);
      if (end == nullptr || rank == scenario_.chaos.lose.rank) continue;
      if (first == nullptr) first = end, first_rank = rank;
      if (end->code != first->code || end->culprit != first->culprit)
        say("the ranks do not agree: " + said_by(first_rank, *first) + " | " + said_by(rank, *end));
    }
  }

  const Scenario& scenario_;
  const std::vector<Report>& reports_;
  const std::vector<Fate>& fates_;
  std::vector<std::string> wrong_;
};

}  // namespace

const GroupEnd* Report::end_of(int group) const {
  const auto found = std::ranges::find(ends, group, &GroupEnd::group);
  return found == ends.end() ? nullptr : &*found;
}

void Report::fail(int group, const Error& error, const std::string& where) {
  if (const GroupEnd* const earlier = end_of(group)) {
    if (earlier->code != error.code() || earlier->culprit != error.culprit())
      wrong.push_back(where + ": group " + std::to_string(group) +
                      " has failed before, with another cause: " + earlier->text + " | now: " + error.what());
    return;
  }
  ends.push_back({group, error.code(), error.culprit(), where + ": " + error.what()});
}

std::string to_lines(const Report& report) {
  std::string lines;
  for (const GroupEnd& end : report.ends)
    lines += "end " + std::to_string(end.group) + " " + std::to_string(static_cast<int>(end.code)) + " " +
             std::to_string(end.culprit) + " " + one_line(end.text) + "\n";
  for (const std::string& what : report.wrong) lines += "wrong " + one_line(what) + "\n";
  if (report.members != 0) lines += "members " + std::to_string(report.members) + "\n";
  return lines + (report.is_out ? "out\n" : "") + (report.is_whole ? "whole\n" : "");
}

Report report_from(const std::string& lines) {
  Report report;
  std::istringstream in(lines);
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string what;
    words >> what;
    if (what == "whole") report.is_whole = true;
    if (what == "out") report.is_out = true;
    if (what == "members") words >> report.members;
    if (what == "wrong") report.wrong.push_back(line.substr(6));
    if (what != "end") continue;
    GroupEnd end;
    int code = 0;
    words >> end.group >> code >> end.culprit;
    end.code = static_cast<Code>(code);
    std::getline(words, end.text);
    report.ends.push_back(std::move(end));
  }
  return report;
}

std::vector<std::string> judge(const Scenario& scenario, const std::vector<Report>& reports,
                               const std::vector<Fate>& fates) {
  return Judge(scenario, reports, fates).run();
}

}  // namespace tutti::testing
