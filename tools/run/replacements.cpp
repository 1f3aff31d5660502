#include "tools/run/replacements.hpp"

#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <functional>

#include "tutti/status.hpp"

namespace tutti::tools {
namespace {

constexpr int most_processes = 1 << 20;

/// Returns a number from 1 on; 0 for any other text.
int count_in(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool good = error == std::errc() && end == text.data() + text.size() && value <= most_processes;
  return good ? std::max(value, 0) : 0;
}

std::string times(int count) { return count == 1 ? "once" : count == 2 ? "twice" : fmt::format("{} times", count); }

}  // namespace

Elastic parse_elastic(std::string_view text) {
  const std::size_t colon = std::min(text.find(':'), text.size());
  const bool has_most = colon < text.size();
  Elastic elastic;
  elastic.least = count_in(text.substr(0, colon));
  elastic.most = has_most ? count_in(text.substr(colon + 1)) : 0;
  if (elastic.least == 0 || (has_most && elastic.most == 0))
    throw Error(Code::invalid, fmt::format("--elastic {}: give MIN or MIN:MAX, numbers of ranks from 1 to {}, such as "
                                           "--elastic 2:4",
                                           text, most_processes));
  if (has_most && elastic.most < elastic.least)
    throw Error(Code::invalid, fmt::format("--elastic {}: the first number is the smaller one; give --elastic {}:{}",
                                           text, elastic.most, elastic.least));
  return elastic;
}

Replacements::Replacements(const Elastic& elastic, int ranks, Deadline now) : elastic_(elastic) {
  if (on()) slots_.resize(static_cast<std::size_t>(ranks), {.started = now});
}

std::optional<Seconds> Replacements::failed(int rank, Deadline now) {
  if (!on() || stopped_ || started_ + waiting() >= elastic_.restarts) return std::nullopt;
  Slot& it = slot(rank);
  it.quick = it.replaced > 0 && now - it.started < too_soon ? it.quick + 1 : 0;
  Seconds pause = it.quick > 0 ? shortest_pause : Seconds(0);
  for (int i = 1; i < it.quick && pause < longest_pause; ++i) pause *= 2;
  pause = std::min(pause, longest_pause);
  waiting_.emplace(now + duration_of(pause), rank);
  return pause;
}

std::vector<int> Replacements::stop() {
  stopped_ = true;
  std::vector<int> ranks;
  for (const auto& [_, rank] : std::exchange(waiting_, {})) ranks.push_back(rank);
  return ranks;
}

std::optional<Replacements::Start> Replacements::take(Deadline now) {
  if (next() > now) return std::nullopt;
  const int rank = waiting_.begin()->second;
  waiting_.erase(waiting_.begin());
  slot(rank).started = now;
  ++slot(rank).replaced;
  return Start{rank, ++started_};
}

std::string Replacements::consequence(std::optional<Seconds> pause, bool others) const {
  std::string text = others ? "the others go on, and " : "";
  if (pause)
    return text + (*pause > Seconds(0) ? fmt::format("a replacement starts in {} s", pause->count())
                                       : "a replacement starts now");
  text += "it is not replaced";
  if (stopped_) return text + ", because the job is ending";
  if (started_ + waiting() >= elastic_.restarts)
    return text + fmt::format(", because --restarts {} allows no more", elastic_.restarts);
  return text;
}

std::string Replacements::too_few(int left) const {
  return fmt::format(
      "{} {} left, and --elastic {}:{} needs {}, so the job ends; mend what makes ranks fail, or run it again with a "
      "smaller minimum or a larger --restarts",
      left == 0   ? "no process"
      : left == 1 ? "only 1 process"
                  : fmt::format("only {} processes", left),
      left > 1 ? "are" : "is", elastic_.least, elastic_.most, elastic_.least);
}

std::string Replacements::nobody_admits() {
  return "all ranks that had joined the others have failed, and nobody is left who could admit their replacements; "
         "ending the job: start it again, from its last checkpoint if it has one";
}

std::string Replacements::summary() const {
  std::vector<std::pair<int, int>> all;  // minus how often, and the rank, so that the first comes first
  for (std::size_t rank = 0; rank < slots_.size(); ++rank)
    if (slots_[rank].replaced > 0) all.emplace_back(-slots_[rank].replaced, static_cast<int>(rank));
  if (all.empty()) return {};
  std::ranges::sort(all);
  constexpr std::size_t most_named = 16;
  std::vector<std::string> words;
  for (const auto& [count, rank] : all)
    if (words.size() < most_named) words.push_back(fmt::format("rank {} {}", rank, times(-count)));
  if (all.size() > most_named) words.push_back(fmt::format("{} more ranks", all.size() - most_named));
  return fmt::format("{} failed and {} replaced ({})", started_ == 1 ? "1 rank" : fmt::format("{} ranks", started_),
                     started_ == 1 ? "was" : "were", fmt::join(words, ", "));
}

}  // namespace tutti::tools
