// How a shard orders pushes, rounds and replies.
#include "collectives/parameter_server/shard.hpp"

#include <algorithm>
#include <exception>
#include <utility>

#include "collectives/parameter_server/elements.hpp"

namespace tutti {
namespace {

Block converted(const Block& data, DType from, DType to, std::size_t count) {
  if (from == to) return data;
  Block made(count * size_of(to));
  with_elements(from, [&]<class From>(From*) {
    with_elements(to, [&]<class To>(To*) {
      using Wide = std::conditional_t<std::is_same_v<From, double> && std::is_same_v<To, double>, double, WideOf<From>>;
      const auto* const in = reinterpret_cast<const From*>(data.data());
      auto* const out = reinterpret_cast<To*>(made.data());
      for (std::size_t i = 0; i < count; ++i) {
        const auto value = static_cast<Wide>(in[i]);
        if constexpr (std::is_same_v<To, double>)
          out[i] = static_cast<double>(value);
        else
          out[i] = static_cast<To>(static_cast<float>(value));
      }
    });
  });
  return made;
}

std::string text_of(const Range& range) {
  return "[" + std::to_string(range.offset) + ", " + std::to_string(range.end()) + ")";
}

}  // namespace

Shard::Shard(const Place& place) : place_(place), values_(Block::zeroed(place.range.count * size_of(place.dtype))) {
  with_elements(place.dtype, []<class T>(T*) {});  // refuses integers
}

void Shard::enter(int worker, bool counts) {
  if (has(worker)) return;
  if (!counts) {
    guests_.insert(worker);
    return;
  }
  const auto slowest = std::ranges::min_element(pushes_, {}, [](const auto& one) { return one.second; });
  pushes_[worker] = slowest == pushes_.end() ? 0 : slowest->second;
}

void Shard::part(int worker, Clock::time_point now, Answers& answers) {
  if (pushes_.erase(worker) + guests_.erase(worker) == 0) return;
  std::erase_if(held_, [&](const Held& one) { return one.worker == worker; });
  for (auto& [_, state] : rules_) close_rounds(state, now, answers);
  release(answers);
}

std::vector<Pushed> Shard::waiting(const std::string& rule) const {
  std::vector<Pushed> found;
  const auto state = rules_.find(rule);
  if (state == rules_.end()) return found;
  const auto add = [&](const Push& one) {
    ConstBuffer data;
    if (one.rule->takes_data) data = ConstBuffer(one.data.data(), one.range.count, place_.dtype);
    found.push_back({.data = data, .meta = one.meta, .staleness = 0, .answer = {}});
  };
  std::ranges::for_each(state->second.round.pushed, add);
  std::ranges::for_each(state->second.round.next, add);
  return found;
}

std::string Shard::why_not(const Push& push) const {
  if (push.rule->takes_data && push.data.size() != push.range.count * size_of(push.dtype))
    return "it carries " + std::to_string(push.data.size()) + " bytes, and not " + std::to_string(push.range.count) +
           " elements of " + std::string(tutti::name(push.dtype));
  if (is_integer(push.dtype)) return "its data are " + std::string(tutti::name(push.dtype)) + "; pass floating point";
  if (push.rule->quorum > 1 && push.range != place_.range)
    return "a rule with a quorum is for whole buffers, and this is " + text_of(push.range) + " of " +
           text_of(place_.range);
  return {};
}

void Shard::push(Push push, Clock::time_point now, Answers& answers) {
  const int worker = push.meta.worker;
  if (const std::string why = why_not(push); !why.empty()) {
    answers.push_back({worker, push.sequence, Code::invalid, "push by the rule '" + push.name + "': " + why, version_});
    return;
  }
  if (push.rule->takes_data) push.data = converted(push.data, push.dtype, place_.dtype, push.range.count);
  if (push.rule->quorum > 1 || push.rule->grace > 0) {
    join_round(std::move(push), now, answers);
  } else {
    std::vector<Push> one;
    one.push_back(std::move(push));
    apply(std::move(one), answers);
  }
  release(answers);
}

void Shard::pull(int worker, std::uint64_t sequence, const Range& range, Answers& answers) {
  answer({.worker = worker, .answer = {.worker = worker, .sequence = sequence}, .reads = true, .range = range},
         answers);
}

Shard::RuleState& Shard::state_of(const Push& push) {
  const auto [found, is_new] = rules_.try_emplace(push.name);
  RuleState& state = found->second;
  if (is_new) {
    const std::size_t slot_width = size_of(place_.dtype == DType::f64 ? DType::f64 : DType::f32);
    for (std::size_t i = 0; i < push.rule->slots; ++i)
      state.slots.push_back(Block::zeroed(place_.range.count * slot_width));
    state.scalars.resize(push.rule->scalars);
  }
  return state;
}

void Shard::join_round(Push push, Clock::time_point now, Answers& answers) {
  RuleState& state = state_of(push);
  state.round.next.push_back(std::move(push));
  close_rounds(state, now, answers);
}

bool Shard::closes(const ServerRule& rule, Round& round, Clock::time_point now) const {
  const std::size_t all = std::max<std::size_t>(1, workers());
  const std::size_t quorum = std::min(all, static_cast<std::size_t>(std::max(1, rule.quorum)));
  const auto still_here = static_cast<std::size_t>(
      std::ranges::count_if(round.pushed, [&](const Push& one) { return pushes_.contains(one.meta.worker); }));
  if (round.pushed.size() < quorum) return false;
  if (rule.grace <= 0 || still_here >= workers()) return true;
  if (round.until == never) round.until = now + duration_of(Seconds(rule.grace));
  return now >= round.until;
}

// Moves waiting pushes into the round in the order of their arrival, one per worker, and applies the round if it
// closes. Repeats this, since several rounds may close in one call.
void Shard::close_rounds(RuleState& state, Clock::time_point now, Answers& answers) {
  while (true) {
    Round& round = state.round;
    for (auto one = round.next.begin(); one != round.next.end();) {
      const bool is_in =
          std::ranges::any_of(round.pushed, [&](const Push& other) { return other.meta.worker == one->meta.worker; });
      if (is_in) {
        ++one;
        continue;
      }
      round.pushed.push_back(std::move(*one));
      one = round.next.erase(one);
    }
    if (round.pushed.empty() || !closes(*round.pushed.front().rule, round, now)) return;
    round.until = never;
    std::vector<Push> pushed = std::exchange(round.pushed, {});
    std::ranges::stable_sort(pushed, {}, [](const Push& one) { return one.meta.worker; });
    apply(std::move(pushed), answers);
  }
}

Buffer Shard::part_of(const Block& block, DType dtype, const Range& range) const noexcept {
  return {block.data() + (range.offset - place_.range.offset) * size_of(dtype), range.count, dtype};
}

// Copy on write: answers that are not sent yet keep the old values.
void Shard::write_values() {
  if (values_.is_shared()) values_ = Block::copy_of(values_.bytes());
}

void Shard::apply(std::vector<Push> pushed, Answers& answers) {
  const ServerRule& rule = *pushed.front().rule;
  const Range range = pushed.front().range;
  RuleState& state = state_of(pushed.front());
  std::vector<Pushed> messages;
  std::vector<Block> own(rule.answers ? pushed.size() : 0);
  for (std::size_t i = 0; i < pushed.size(); ++i) {
    const Push& one = pushed[i];
    Pushed message{.data = {}, .meta = one.meta, .staleness = 0, .answer = {}};
    if (rule.takes_data) message.data = ConstBuffer(one.data.data(), range.count, place_.dtype);
    if (one.meta.version <= version_) message.staleness = version_ - one.meta.version;
    if (rule.answers) {
      own[i] = Block(range.count * width());
      message.answer = Buffer(own[i].data(), range.count, place_.dtype);
    }
    messages.push_back(message);
  }
  write_values();
  const DType wide = place_.dtype == DType::f64 ? DType::f64 : DType::f32;
  std::vector<Buffer> slots;
  for (const Block& slot : state.slots) slots.push_back(part_of(slot, wide, range));
  std::string why;
  try {
    rule.apply({part_of(values_, place_.dtype, range), slots, state.scalars, version_, range.offset, place_.server},
               messages);
    ++version_;
  } catch (const std::exception& problem) {
    why = "the rule '" + pushed.front().name + "' failed: " + problem.what();
  }
  for (std::size_t i = 0; i < pushed.size(); ++i) {
    const Push& one = pushed[i];
    Held held{.worker = one.meta.worker,
              .answer = {.worker = one.meta.worker, .sequence = one.sequence},
              .reads = one.wants_values && !rule.answers,
              .range = range};
    if (!why.empty()) {
      held.answer.code = Code::invalid;
      held.answer.text = why;
      held.reads = false;
    } else {
      if (const auto worker = pushes_.find(one.meta.worker); worker != pushes_.end()) ++worker->second;
      if (rule.answers && one.wants_values) {
        held.answer.memory = own[i];
        held.answer.values = own[i].bytes();
      }
    }
    answer(std::move(held), answers);
  }
}

bool Shard::is_ahead(int worker) const {
  if (!place_.staleness) return false;
  const auto one = pushes_.find(worker);
  if (one == pushes_.end()) return false;
  const auto slowest = std::ranges::min_element(pushes_, {}, [](const auto& other) { return other.second; });
  return one->second > slowest->second + *place_.staleness;
}

void Shard::answer(Held held, Answers& answers) {
  if (is_ahead(held.worker))
    held_.push_back(std::move(held));
  else
    send(std::move(held), answers);
}

void Shard::send(Held held, Answers& answers) {
  if (held.answer.sequence == 0) return;
  held.answer.version = version_;
  if (held.reads) {
    held.answer.memory = values_;
    held.answer.values = part_of(values_, place_.dtype, held.range).view();
  }
  answers.push_back(std::move(held.answer));
}

void Shard::release(Answers& answers) {
  std::vector<Held> still;
  for (Held& one : std::exchange(held_, {})) {
    if (is_ahead(one.worker))
      still.push_back(std::move(one));
    else
      send(std::move(one), answers);
  }
  held_ = std::move(still);
}

Deadline Shard::due() const noexcept {
  Deadline first = never;
  for (const auto& [_, state] : rules_) first = std::min(first, state.round.until);
  return first;
}

void Shard::tick(Clock::time_point now, Answers& answers) {
  if (now < due()) return;
  for (auto& [_, state] : rules_) close_rounds(state, now, answers);
  release(answers);
}

}  // namespace tutti
