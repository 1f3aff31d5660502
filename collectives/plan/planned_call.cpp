#include "collectives/plan/planned_call.hpp"

#include <algorithm>

#include "collectives/plan/planned_backend.hpp"
#include "transports/core/layout.hpp"

namespace tutti {
void PlannedCall::prepare(Call& call, const Algorithm& algorithm) {
  made_by_ = &call;
  call_ = &call.what;
  algorithm_ = &algorithm;
  next_lane_ = busy_ = 0;
  failure_ = {};
  cut_into_lanes();
  copy_input();
}

void PlannedCall::begin() {
  made_by_->tracker = this;
  busy_ = 1;  // guard: lanes that end at once must not end the call yet
  for (std::size_t slot = 0; slot < slots_; ++slot) play_next(slot);
  if (--busy_ == 0) owner_.ended(*this, failure_);
}

void PlannedCall::cut_into_lanes() {
  const int size = shared_.group.size();
  count_ = block_count(*call_, size);
  blocks_in_ = blocks_in(call_->kind, size);
  blocks_out_ = blocks_out(call_->kind, size);

  const std::size_t whole = count_ * std::max(blocks_in_, blocks_out_) * size_of(call_->in.dtype);
  lanes_ = 1;
  if (algorithm_->lanes && !call_->variable && count_ > 0 && size > 1)
    lanes_ = std::clamp<std::size_t>((whole + shared_.lane_bytes - 1) / shared_.lane_bytes, 1, count_);
  lane_count_ = (count_ + lanes_ - 1) / lanes_;
  if (lane_count_ > 0) lanes_ = (count_ + lane_count_ - 1) / lane_count_;
  lanes_ = std::max<std::size_t>(lanes_, 1);
  slots_ = std::min(lanes_, shared_.max_lanes);
  ExecutionOwner& owner = *this;
  while (executions_.size() < slots_)
    executions_.push_back(std::make_unique<Execution>(shared_.wire, shared_.group, owner));
}

void PlannedCall::copy_input() {
  input_.clear();
  if (call_->op.op == Op::premul_sum && call_->in.data != nullptr) {
    input_.resize(call_->in.bytes());
    scale(call_->in.dtype, input_.data(), call_->in.data, call_->in.bytes(), call_->op.factor);
  } else if (overwrites_input(*call_)) {
    const ConstBytes data = call_->in.view();  // alltoall in place would overwrite blocks before they are sent
    input_.assign(data.begin(), data.end());
  }
}

void PlannedCall::trim() noexcept {
  constexpr std::size_t most = 64 << 10;
  if (scratch_.capacity() > most) std::vector<std::byte>().swap(scratch_);
  if (input_.capacity() > most) std::vector<std::byte>().swap(input_);
}

void PlannedCall::play_next(std::size_t slot) {
  if (next_lane_ >= lanes_ || !failure_.ok()) return;
  try {
    play_lane(slot);
  } catch (const std::exception& error) {  // out of memory for the plan or its scratch; other lanes may be running
    const int me = shared_.wire.rank();
    failure_ = Status::failure(Code::resource,
                               "out of memory on rank " + std::to_string(me) + ": " + std::string(error.what()), me);
    made_by_->trouble(failure_);
  }
}

void PlannedCall::play_lane(std::size_t slot) {
  const std::size_t lane = next_lane_++;
  const Group& group = shared_.group;
  const std::size_t first = lane * lane_count_;
  const std::size_t count = std::min(lane_count_, count_ - std::min(first, count_));
  const Shape shape{group.rank, group.size(), count, call_->root, call_->in_counts, call_->out_counts, group.host};
  auto plan = call_->variable ? std::make_shared<const Schedule>(algorithm_->plan(shape))
                              : shared_.plans.plan(*algorithm_, shape);
  if (lane == 0) {  // the largest lane
    scratch_bytes_ = (plan->scratch() * size_of(call_->in.dtype) + 63) / 64 * 64;
    scratch_.resize(scratch_bytes_ * slots_);
  }
  ++busy_;
  executions_[slot]->play(std::move(plan), memory_of(lane, slot),
                          {group.id, made_by_->sequence, static_cast<std::uint32_t>(lane)}, made_by_->summary);
}

LaneMemory PlannedCall::memory_of(std::size_t lane, std::size_t slot) const {
  const std::size_t first = lane * lane_count_;
  const std::size_t count = std::min(lane_count_, count_ - std::min(first, count_));
  // Plans never write to `in`, so the const_cast is safe.
  auto* const in = const_cast<std::byte*>(input_.empty() ? call_->in.data : input_.data());
  LaneMemory memory;
  const bool whole = lanes_ == 1;  // one lane: the plan may cross blocks, and blocks may differ
  memory.in = {in, whole || blocks_in_ == 1 ? 0 : count_, first, count};
  memory.out = {call_->out.data, whole || blocks_out_ == 1 ? 0 : count_, first, count};
  memory.scratch = {const_cast<std::byte*>(scratch_.data()) + slot * scratch_bytes_, 0, 0, 0};
  memory.fold.dtype = call_->in.dtype;
  memory.fold.op = call_->op.op;
  if (call_->op.op == Op::avg) memory.last_divisor = shared_.group.size();
  return memory;
}

void PlannedCall::ended(Execution& execution, const Status& status) {
  --busy_;
  if (failure_.ok() && !status.ok()) failure_ = status;
  if (failure_.ok() && next_lane_ < lanes_) {
    const auto slot = std::ranges::find_if(executions_, [&](const auto& one) { return one.get() == &execution; });
    ++busy_;  // guard while the next lane starts, as in begin()
    play_next(static_cast<std::size_t>(slot - executions_.begin()));
    --busy_;
  }
  if (busy_ == 0) owner_.ended(*this, failure_);
}

std::string PlannedCall::where(const Call&) const {
  for (const auto& execution : executions_)
    if (execution->busy()) return std::string(algorithm_->name) + " " + execution->where();
  return std::string(algorithm_->name);
}

}  // namespace tutti
