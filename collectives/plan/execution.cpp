#include "collectives/plan/execution.hpp"

#include <cstring>

namespace tutti {

void Execution::play(std::shared_ptr<const Schedule> plan, const LaneMemory& memory, const Tag& tag, Signature call) {
  plan_ = std::move(plan);
  memory_ = memory;
  tag_ = tag;
  call_ = call.bits;
  round_ = 0;
  failure_ = {};
  advance();
}

void Execution::advance() {
  while (failure_.ok() && round_ < plan_->rounds().size()) {
    const auto& round = plan_->rounds()[round_++];
    open_ = 1;  // guard: steps that end at once must not start the next round yet
    for (const Step& step : round) post(step);
    if (--open_ > 0) return;
  }
  plan_.reset();
  owner_.ended(*this, failure_);
}

void Execution::post(const Step& step) {
  const std::size_t bytes = step.slice.count * memory_.fold.width();
  std::byte* const data = at(step.slice);
  Fold fold = memory_.fold;
  if (step.last) fold.divisor = memory_.last_divisor;
  if (step.verb == Step::Verb::copy) {
    if (const std::byte* from = at(step.with); from != data && bytes > 0) std::memmove(data, from, bytes);
    return;
  }
  if (step.verb == Step::Verb::fold) return fold(data, at(step.with), at(step.from), bytes);
  const int peer = group_.members[static_cast<std::size_t>(step.peer)];
  const auto done = [this](const Status& status) { step_done(status); };
  ++open_;
  switch (step.verb) {
    case Step::Verb::send: return wire_.send(peer, tag_, call_, {data, bytes}, done);
    case Step::Verb::recv: return wire_.recv(peer, tag_, call_, {data, bytes}, done);
    default: return wire_.recv_reduce(peer, tag_, call_, {data, bytes}, at(step.with), fold, done);
  }
}

void Execution::step_done(const Status& status) {
  if (failure_.ok() && !status.ok()) {
    failure_ = status;  // report the first failure
    owner_.trouble(status);
  }
  if (--open_ == 0) advance();
}

std::string Execution::where() const {
  if (!plan_) return "idle";
  std::string text = "in round " + std::to_string(round_) + " of " + std::to_string(plan_->rounds().size());
  if (round_ == 0) return text;
  std::string peers;
  for (const Step& step : plan_->rounds()[round_ - 1])
    if (step.peer >= 0)
      peers +=
          (peers.empty() ? " with rank " : ", ") + std::to_string(group_.members[static_cast<std::size_t>(step.peer)]);
  return text + peers;
}

}  // namespace tutti
