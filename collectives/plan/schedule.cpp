// Schedule: see schedule.hpp.
#include "collectives/plan/schedule.hpp"

#include <utility>

#include "tutti/topology.hpp"

namespace tutti {

// ---- members ------------------------------------------------------------------------------------

int Members::across(int i) const noexcept {
  return (*hosts_)[size_ != 0 ? hosts_->in_order(i) : i][static_cast<std::size_t>(first_)];
}

// ---- phases -------------------------------------------------------------------------------------

Schedule::Cell* Schedule::add_phase(int rounds, MakeRound make, std::size_t bytes) {
  const std::size_t at = room_.size();
  phases_.push_back({make, rounds, static_cast<std::uint32_t>(at), -1});
  rounds_ += rounds;
  return room_.extend((bytes + sizeof(Cell) - 1) / sizeof(Cell));
}

void Schedule::round(std::span<const Step> steps) {
  static_assert(alignof(Step) <= alignof(Cell) && sizeof(std::size_t) == sizeof(Cell));
  const MakeRound make = [](const void* data, int, Round& round) {
    const auto* const cells = static_cast<const Cell*>(data);
    const std::size_t count = *reinterpret_cast<const std::size_t*>(cells);
    const auto* const kept = reinterpret_cast<const Step*>(cells + 1);
    for (std::size_t i = 0; i < count; ++i) round.add(kept[i]);
  };
  Cell* const room = add_phase(1, make, sizeof(Cell) + steps.size_bytes());
  ::new (static_cast<void*>(room)) std::size_t(steps.size());
  for (std::size_t i = 0; i < steps.size(); ++i)
    ::new (static_cast<void*>(reinterpret_cast<Step*>(room + 1) + i)) Step(steps[i]);
}

Schedule& Schedule::then(const Schedule& next) {
  const auto cells = static_cast<std::uint32_t>(room_.size());
  const auto changes = static_cast<int>(changes_.size());
  const std::size_t phases = next.phases_.size(), more_cells = next.room_.size(), more = next.changes_.size();
  const auto moved = [changes](int change) { return change < 0 ? change : change + changes; };
  for (std::size_t i = 0; i < phases; ++i) {
    Phase phase = next.phases_[i];
    phase.at += cells;
    phase.changes = moved(phase.changes);
    phases_.push_back(phase);
  }
  for (std::size_t i = 0; i < more; ++i) {
    Change change = next.changes_[i];
    change.inner = moved(change.inner);
    changes_.push_back(change);
  }
  room_.extend(more_cells);
  for (std::size_t i = 0; i < more_cells; ++i) room_[cells + i] = next.room_[i];
  use_scratch(next.scratch_);
  rounds_ += next.rounds_;
  return *this;
}

// ---- changes ------------------------------------------------------------------------------------

Schedule& Schedule::change_all(const Change& more) {
  // Consecutive phases with the same change share the new one. `more` is merged into their change, unless both relabel
  // ranks: only for two relabellings does the order matter.
  const std::size_t phases = phases_.size();
  int old = -2, made = -1;
  for (std::size_t i = 0; i < phases; ++i) {
    int& its = phases_[i].changes;
    if (its != old) {
      old = its;
      made = its;
      if (its < 0 || (more.relabels && changes_[static_cast<std::size_t>(its)].relabels)) {
        made = static_cast<int>(changes_.size());
        changes_.push_back(more);
        changes_[static_cast<std::size_t>(made)].inner = its;
      } else {
        changes_[static_cast<std::size_t>(its)].join(more);
      }
    }
    its = made;
  }
  return *this;
}

void Schedule::Change::join(const Change& more) noexcept {
  if (more.relabels) members = more.members;
  relabels |= more.relabels;
  base += more.base;
  in_place |= more.in_place;
  partial |= more.partial;
}

Schedule&& Schedule::on(const Members& members, std::size_t base) && {
  return std::move(change_all({members, base, true, false, false, -1}));
}

Schedule&& Schedule::in_place() && { return std::move(change_all({{}, 0, false, true, false, -1})); }

Schedule&& Schedule::partial() && { return std::move(change_all({{}, 0, false, false, true, -1})); }

void Schedule::change(Step& step, int changes) const {
  const Change& change = changes_[static_cast<std::size_t>(changes)];
  if (change.inner >= 0) this->change(step, change.inner);
  if (change.relabels && step.peer >= 0) step.peer = change.members[step.peer];
  if (change.partial) step.last = false;
  if (step.signal) return;
  const auto apply = [&change](Slice& slice) {
    if (change.in_place && slice.memory == Memory::in) slice.memory = Memory::out;
    if (slice.memory != Memory::scratch) slice.offset += change.base;
  };
  apply(step.slice);
  if (step.folds() || step.verb == Step::Verb::copy) apply(step.with);
  if (step.verb == Step::Verb::fold) apply(step.from);
}

void Round::hand_on_changed(Step step) {
  plan_.change(step, changes_);
  if (!does_nothing(step)) take_(taker_, step);
}

// ---- playing ------------------------------------------------------------------------------------

void Schedule::play_round(int number, Round::Take take, void* taker) const {
  const Phase* phase = phases_.begin();
  for (; number >= phase->rounds; ++phase) number -= phase->rounds;
  Round round(*this, phase->changes, take, taker);
  phase->make(room_.data() + phase->at, number, round);
}

std::size_t Schedule::bytes() const noexcept {
  return sizeof(*this) + phases_.allocated() + changes_.allocated() + room_.allocated();
}

Rounds all_rounds(const Schedule& schedule) {
  Rounds all;
  for (int i = 0; i < schedule.rounds(); ++i) {
    std::vector<Step> steps;
    schedule.play(i, [&steps](const Step& step) { steps.push_back(step); });
    if (!steps.empty()) all.push_back(std::move(steps));
  }
  return all;
}

Tally tally(const Schedule& schedule) {
  Tally all;
  for (int i = 0; i < schedule.rounds(); ++i) {
    const std::size_t before = all.steps;
    schedule.play(i, [&all](const Step& step) {
      ++all.steps;
      if (step.verb != Step::Verb::send) return;
      ++all.messages;
      all.elements += step.slice.count;
    });
    if (all.steps > before) ++all.rounds;
  }
  return all;
}

// ---- text ---------------------------------------------------------------------------------------

namespace {

std::string slice_text(const Slice& s) {
  static constexpr const char* names[] = {"in", "out", "scratch"};
  const std::string memory = names[static_cast<int>(s.memory)];
  if (s.run == 0 || s.count <= s.run)
    return memory + "[" + std::to_string(s.offset) + "," + std::to_string(s.offset + s.count) + ")";
  return memory + "[" + std::to_string(s.offset) + "+" + std::to_string(s.count) + " by " + std::to_string(s.run) +
         " every " + std::to_string(s.stride) + ")";
}

}  // namespace

std::string to_string(const Step& s) {
  using Verb = Step::Verb;
  static constexpr const char* verbs[] = {"send", "recv", "recv_reduce", "copy", "fold"};
  std::string line = s.signal ? (s.verb == Verb::send ? "notify" : "await") : verbs[static_cast<int>(s.verb)];
  if (s.peer >= 0) line += " " + std::to_string(s.peer);
  if (s.signal) return line;
  line += " " + slice_text(s.slice);
  if (s.verb == Verb::copy) line += " = " + slice_text(s.with);
  if (s.verb == Verb::recv_reduce && s.with != s.slice) line += " = " + slice_text(s.with) + " (op) received";
  if (s.verb == Verb::fold) line += " = " + slice_text(s.with) + " (op) " + slice_text(s.from);
  if (s.last) line += " last";
  return line;
}

std::string to_string(const Schedule& schedule) {
  std::string page;
  std::size_t number = 0;
  for (const auto& round : all_rounds(schedule)) {
    page += std::to_string(number++) + ":";
    for (const Step& step : round) page += (&step == &round.front() ? " " : " | ") + to_string(step);
    page += "\n";
  }
  return page;
}

}  // namespace tutti
