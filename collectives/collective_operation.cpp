#include "collectives/collective_operation.hpp"

#include <algorithm>

#include "collectives/context.hpp"
#include "collectives/planned_backend.hpp"

namespace tutti {
namespace {

constexpr std::uint32_t check_lane = 0xffffffffu;

bool blocked_in(Kind kind) noexcept {
  return kind == Kind::reduce_scatter || kind == Kind::scatter || kind == Kind::alltoall;
}
bool blocked_out(Kind kind) noexcept {
  return kind == Kind::allgather || kind == Kind::gather || kind == Kind::alltoall;
}

// Elements per block, as Shape wants it.
std::size_t block_count(const Collective& call, int size) noexcept {
  const auto n = static_cast<std::size_t>(size);
  switch (call.kind) {
    case Kind::allgather:
    case Kind::gather: return call.in.count;
    case Kind::reduce_scatter:
    case Kind::scatter: return call.out.count;
    case Kind::alltoall: return call.in.count / n;
    case Kind::broadcast: return call.out.count;
    default: return call.in.count;
  }
}

}  // namespace

CollectiveOperation::CollectiveOperation(std::shared_ptr<Context> context, std::shared_ptr<GroupState> group,
                                         Parts parts)
    : Operation(std::move(context), std::move(group), parts.record, parts.until), parts_(std::move(parts)) {}

void CollectiveOperation::begin() {
  prepare();
  if (context().settings().verify == "full" && this->group().group().size() > 1) return check_first();
  for (std::size_t slot = 0; slot < executions_.size() && !done(); ++slot) play_next(slot);
}

void CollectiveOperation::prepare() {
  const Collective& call = parts_.call;
  const Group& group = this->group().group();
  const Settings& settings = context().settings();
  count_ = block_count(call, group.size());
  blocks_in_ = blocked_in(call.kind) ? static_cast<std::size_t>(group.size()) : 1;
  blocks_out_ = blocked_out(call.kind) ? static_cast<std::size_t>(group.size()) : 1;

  const std::size_t whole = count_ * std::max(blocks_in_, blocks_out_) * size_of(call.in.dtype);
  if (parts_.algorithm->lanes && !call.variable && count_ > 0 && group.size() > 1) {
    const auto lane_bytes = static_cast<std::size_t>(settings.lane_bytes);
    lanes_ = std::clamp<std::size_t>((whole + lane_bytes - 1) / lane_bytes, 1, count_);
  }
  lane_count_ = (count_ + lanes_ - 1) / lanes_;
  if (lane_count_ > 0) lanes_ = (count_ + lane_count_ - 1) / lane_count_;
  lanes_ = std::max<std::size_t>(lanes_, 1);
  ExecutionOwner& owner = *this;
  const std::size_t slots = std::min<std::size_t>(lanes_, static_cast<std::size_t>(settings.max_lanes));
  for (std::size_t slot = 0; slot < slots; ++slot)
    executions_.push_back(std::make_unique<Execution>(context().wire(), group, owner));

  if (call.op.op == Op::premul_sum && call.in.data != nullptr) {
    input_.resize(call.in.bytes());
    scale(call.in.dtype, input_.data(), call.in.data, call.in.bytes(), call.op.factor);
  } else if (call.kind == Kind::alltoall && call.in.data == call.out.data && call.in.bytes() > 0) {
    const ConstBytes data = call.in.view();  // blocks would be overwritten before they are sent
    input_.assign(data.begin(), data.end());
  }
}

// TUTTI_VERIFY=full: the ranks compare what they are about to do before any of them touches a buffer.
void CollectiveOperation::check_first() {
  const Group& group = this->group().group();
  const Algorithm* ring = find_algorithm(Kind::allgather, "ring");
  checking_ = true;
  signatures_.assign(static_cast<std::size_t>(group.size()), 0);
  auto* const all = reinterpret_cast<std::byte*>(signatures_.data());
  auto* const mine = all + static_cast<std::size_t>(group.rank) * sizeof(std::int64_t);
  signatures_[static_cast<std::size_t>(group.rank)] = static_cast<std::int64_t>(call().call.bits);
  LaneMemory memory;
  memory.in = {mine, 0, 0, 1};
  memory.out = {all, 1, 0, 1};
  memory.fold.dtype = DType::i64;
  auto plan = std::make_shared<Schedule>(ring->plan({group.rank, group.size(), 1, 0, {}, {}}));
  ++busy_;
  executions_[0]->play(std::move(plan), memory, {group.id, call().sequence, check_lane}, {});
}

void CollectiveOperation::play_next(std::size_t slot) {
  if (next_lane_ >= lanes_ || !failure_.ok()) return;
  try {
    play_lane(slot);
  } catch (const std::exception& error) {  // no memory for the plan or its scratch; other lanes may be under way
    failure_ = Status::failure(
        Code::resource, std::string("out of memory on rank ") + std::to_string(context().rank()) + ": " + error.what(),
        context().rank());
    in_trouble(failure_);
    if (busy_ == 0) finish(failure_);
  }
}

void CollectiveOperation::play_lane(std::size_t slot) {
  const std::size_t lane = next_lane_++;
  const Group& group = this->group().group();
  const Collective& call = parts_.call;
  const std::size_t first = lane * lane_count_;
  const std::size_t count = std::min(lane_count_, count_ - std::min(first, count_));
  const Shape shape{group.rank, group.size(), count, call.root, call.in_counts, call.out_counts};
  auto plan = call.variable ? std::make_shared<const Schedule>(parts_.algorithm->plan(shape))
                            : parts_.plans->plan(*parts_.algorithm, shape);
  const LaneMemory probe = memory_of(lane, slot);
  if (scratch_.empty()) {  // the first lane is the largest
    scratch_bytes_ = (plan->scratch() * probe.fold.width() + 63) / 64 * 64;
    scratch_.resize(scratch_bytes_ * executions_.size());
  }
  const LaneMemory memory = memory_of(lane, slot);
  ++busy_;
  executions_[slot]->play(std::move(plan), memory, {group.id, this->call().sequence, static_cast<std::uint32_t>(lane)},
                          this->call().call);
}

LaneMemory CollectiveOperation::memory_of(std::size_t lane, std::size_t slot) const {
  const Collective& call = parts_.call;
  const std::size_t first = lane * lane_count_;
  const std::size_t count = std::min(lane_count_, count_ - std::min(first, count_));
  // Plans never write to `in`, so the constness that goes here comes back nowhere.
  auto* const in = const_cast<std::byte*>(input_.empty() ? call.in.data : input_.data());
  LaneMemory memory;
  const bool whole = lanes_ == 1;  // then the plan may cross blocks, or they may differ
  memory.in = {in, whole || blocks_in_ == 1 ? 0 : count_, first, count};
  memory.out = {call.out.data, whole || blocks_out_ == 1 ? 0 : count_, first, count};
  memory.scratch = {const_cast<std::byte*>(scratch_.data()) + slot * scratch_bytes_, 0, 0, 0};
  memory.fold.dtype = call.in.dtype;
  memory.fold.op = call.op.op;
  if (call.op.op == Op::avg) memory.last_divisor = group().group().size();
  return memory;
}

void CollectiveOperation::trouble(const Status& why) { in_trouble(why); }

void CollectiveOperation::ended(Execution& execution, const Status& status) {
  --busy_;
  if (failure_.ok() && !status.ok()) failure_ = status;
  if (checking_ && failure_.ok()) {
    checking_ = false;
    const Group& group = this->group().group();
    const auto other = std::ranges::find_if(
        signatures_, [&](std::int64_t s) { return static_cast<std::uint64_t>(s) != call().call.bits; });
    if (other == signatures_.end()) {
      for (std::size_t slot = 0; slot < executions_.size() && !done(); ++slot) play_next(slot);
      return;
    }
    const auto culprit = static_cast<std::size_t>(other - signatures_.begin());
    Cause why;
    why.code = Code::mismatch;
    why.culprit = group.members[culprit];
    why.reporter = context().rank();
    why.say("the ranks do not agree: rank " + std::to_string(context().rank()) + " made " + describe(call().call) +
            ", but rank " + std::to_string(why.culprit) + " made " + describe({static_cast<std::uint64_t>(*other)}) +
            ". All ranks must make the same calls in the same order.");
    failure_ = Status(why);
    in_trouble(failure_);
  } else if (failure_.ok() && next_lane_ < lanes_) {
    for (std::size_t slot = 0; slot < executions_.size(); ++slot)
      if (executions_[slot].get() == &execution) return play_next(slot);
  }
  if (busy_ == 0) finish(failure_);
}

std::string CollectiveOperation::where() const {
  for (const auto& execution : executions_)
    if (execution->busy()) return std::string(parts_.algorithm->name) + " " + execution->where();
  return std::string(parts_.algorithm->name);
}

}  // namespace tutti
