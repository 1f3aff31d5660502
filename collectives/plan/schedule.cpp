// Schedule: see schedule.hpp.
#include "collectives/plan/schedule.hpp"

#include <algorithm>
#include <stdexcept>

namespace tutti {

namespace {

using Verb = Step::Verb;

bool does_nothing(const Step& step) noexcept {
  if (step.signal) return false;
  return step.slice.count == 0 || (step.verb == Verb::copy && step.slice == step.with);
}

bool folds(const Step& step) noexcept { return step.verb == Verb::recv_reduce || step.verb == Verb::fold; }

/// A copy of `plan` with `change` applied to every step.
template <typename Change>
Schedule changed(const Schedule& plan, Change change) {
  Schedule result;
  result.use_scratch(plan.scratch());
  for (std::vector<Step> steps : plan.rounds()) {
    for (Step& step : steps) change(step);
    result.round(std::move(steps));
  }
  return result;
}

/// Applies `change` to the slices that the step's verb uses.
template <typename Change>
void each_slice(Step& step, Change change) {
  change(step.slice);
  if (folds(step) || step.verb == Verb::copy) change(step.with);
  if (step.verb == Verb::fold) change(step.from);
}

/// Removes [begin, end) from `holes`; returns whether it was in one of them. Throws if it overlaps a hole without
/// being inside it.
bool cut(std::vector<Range>& holes, std::size_t begin, std::size_t end) {
  for (auto hole = holes.begin(); hole != holes.end(); ++hole) {
    const std::size_t from = hole->offset, to = hole->offset + hole->count;
    if (end <= from || to <= begin) continue;
    if (begin < from || to < end) throw std::logic_error("reduced(): a fold covers a part of the slice only");
    holes.erase(hole);
    if (from < begin) holes.push_back({from, begin - from});
    if (end < to) holes.push_back({end, to - end});
    return true;
  }
  return false;
}

std::string text(const Slice& s) {
  static constexpr const char* names[] = {"in", "out", "scratch"};
  return std::string(names[static_cast<int>(s.memory)]) + "[" + std::to_string(s.offset) + "," +
         std::to_string(s.offset + s.count) + ")";
}

std::string text(const Step& s) {
  static constexpr const char* verbs[] = {"send", "recv", "recv_reduce", "copy", "fold"};
  std::string line = s.signal ? (s.verb == Verb::send ? "notify" : "await") : verbs[static_cast<int>(s.verb)];
  if (s.peer >= 0) line += " " + std::to_string(s.peer);
  if (s.signal) return line;
  line += " " + text(s.slice);
  if (s.verb == Verb::copy) line += " = " + text(s.with);
  if (s.verb == Verb::recv_reduce && s.with != s.slice) line += " = " + text(s.with) + " (op) received";
  if (s.verb == Verb::fold) line += " = " + text(s.with) + " (op) " + text(s.from);
  if (s.last) line += " last";
  return line;
}

}  // namespace

void Schedule::round(std::vector<Step> steps) {
  std::erase_if(steps, does_nothing);
  if (!steps.empty()) rounds_.push_back(std::move(steps));
}

Schedule& Schedule::then(Schedule next) {
  use_scratch(next.scratch_);
  std::move(next.rounds_.begin(), next.rounds_.end(), std::back_inserter(rounds_));
  return *this;
}

Schedule Schedule::on(std::span<const int> members, std::size_t base) const {
  return changed(*this, [&](Step& step) {
    if (step.peer >= 0) step.peer = members[static_cast<std::size_t>(step.peer)];
    each_slice(step, [&](Slice& slice) {
      if (slice.memory != Memory::scratch && !step.signal) slice.offset += base;
    });
  });
}

Schedule Schedule::in_place() const {
  return changed(*this, [](Step& step) {
    each_slice(step, [](Slice& slice) {
      if (slice.memory == Memory::in) slice.memory = Memory::out;
    });
  });
}

void Schedule::reduced(Slice slice) {
  if (slice.count == 0) return;
  std::vector<Range> holes{{slice.offset, slice.count}};
  for (auto round = rounds_.rbegin(); round != rounds_.rend(); ++round)
    for (Step& step : *round)
      if (folds(step) && step.slice.memory == slice.memory &&
          cut(holes, step.slice.offset, step.slice.offset + step.slice.count))
        step.last = true;
}

Schedule Schedule::partial() const {
  return changed(*this, [](Step& step) { step.last = false; });
}

std::string to_string(const Schedule& schedule) {
  std::string page;
  std::size_t number = 0;
  for (const auto& round : schedule.rounds()) {
    page += std::to_string(number++) + ":";
    for (const Step& step : round) page += (&step == &round.front() ? " " : " | ") + text(step);
    page += "\n";
  }
  return page;
}

}  // namespace tutti
