#include "collectives/plan/execution.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace tutti {

void Execution::play(const Schedule& plan, const LaneMemory& memory, const Tag& tag, Signature call) {
  plan_ = &plan;
  memory_ = memory;
  tag_ = tag;
  call_ = call.bits;
  round_ = 0;
  any_data_ = false;
  failure_ = {};
  advance();
}

void Execution::advance() {
  while (failure_.ok() && round_ < plan_->rounds()) {
    ended_.clear();
    open_ = 1;  // guard: steps that end at once must not start the next round yet
    plan_->play(round_++, [this](const Step& step) { post(step); });
    if (--open_ > 0) return;
  }
  plan_ = nullptr;
  owner_.ended(*this, failure_);
}

void Execution::post(const Step& step) {
  if (step.verb == Step::Verb::copy) return copy(step);
  const std::size_t bytes = step.slice.count * memory_.fold.width();
  std::byte* const data = at(step.slice);
  Fold fold = memory_.fold;
  if (step.last) fold.divisor = memory_.last_divisor;
  if (step.verb == Step::Verb::fold) return fold(data, at(step.with), at(step.from), bytes);
  const int peer = group_.members[static_cast<std::size_t>(step.peer)];
  // One word with both, so that a std::function does not allocate.
  const std::size_t word = ended_.size() << 1 | static_cast<std::size_t>(step.verb != Step::Verb::send);
  const auto done = [this, word](const Status& status) { step_done(word >> 1, (word & 1) != 0, status); };
  ended_.push_back(false);
  ++open_;
  switch (step.verb) {
    case Step::Verb::send: return wire_.send(peer, tag_, call_, {data, bytes}, done);
    case Step::Verb::recv: return wire_.recv(peer, tag_, call_, {data, bytes}, done);
    default: return wire_.recv_reduce(peer, tag_, call_, {data, bytes}, at(step.with), fold, done);
  }
}

void Execution::copy(const Step& step) const {
  each_run(step.slice, step.with, [&](std::size_t into, std::size_t from, std::size_t count) {
    std::byte* const data = at(step.slice.memory, into);
    if (const std::byte* source = at(step.with.memory, from); source != data)
      std::memmove(data, source, count * memory_.fold.width());
  });
}

void Execution::step_done(std::size_t number, bool received, const Status& status) {
  ended_[number] = true;
  if (received && status.ok() && !std::exchange(any_data_, true)) owner_.first_data();
  if (failure_.ok() && !status.ok()) {
    failure_ = status;  // report the first failure
    owner_.trouble(status);
  }
  if (--open_ == 0) advance();
}

void Execution::partners(std::vector<int>& ranks, std::size_t most) const {
  if (plan_ == nullptr || round_ == 0) return;
  std::size_t number = 0;
  plan_->play(round_ - 1, [&](const Step& step) {
    if (step.peer < 0 || number >= ended_.size() || ended_[number++] || ranks.size() >= most) return;
    const int peer = group_.members[static_cast<std::size_t>(step.peer)];
    if (std::ranges::find(ranks, peer) == ranks.end()) ranks.push_back(peer);
  });
}

std::string Execution::where() const {
  if (plan_ == nullptr) return "idle";
  std::string text = "in round " + std::to_string(round_) + " of " + std::to_string(plan_->rounds());
  if (round_ == 0) return text;
  constexpr std::size_t most_named = 16;
  std::size_t peers = 0;
  plan_->play(round_ - 1, [&](const Step& step) {
    if (step.peer < 0 || ++peers > most_named) return;
    text += (peers == 1 ? " with rank " : ", ") + std::to_string(group_.members[static_cast<std::size_t>(step.peer)]);
  });
  if (peers > most_named) text += ", and in " + std::to_string(peers - most_named) + " more messages";
  return text;
}

}  // namespace tutti
