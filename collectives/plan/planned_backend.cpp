#include "collectives/plan/planned_backend.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "transports/causes.hpp"
#include "transports/core/layout.hpp"

namespace tutti {

namespace {

bool can_play(const Algorithm& algorithm, const Collective& call, const Hosts& hosts, int size) {
  if (call.variable && !algorithm.variable) return false;
  const Shape shape{.size = size, .count = call.in.count, .root = call.root, .hosts = &hosts};
  return algorithm.fits == nullptr || algorithm.fits(shape);
}

}  // namespace

PlannedBackend::PlannedBackend(Transport& wire, const Group& group, const Settings& settings)
    : group_(group),
      hosts_(group.table ? group.table : std::make_shared<const Hosts>(std::span<const int>(), group.size())),
      shared_{wire,
              group_,
              *hosts_,
              plans_,
              static_cast<std::size_t>(settings.lane_bytes),
              static_cast<std::size_t>(settings.max_lanes)} {}

PlannedBackend::~PlannedBackend() = default;

const Algorithm* PlannedBackend::algorithm(const Collective& call, std::string_view wanted) const {
  for (const Algorithm* one : catalog())
    if (one->kind == call.kind && (wanted.empty() || one->name == wanted) &&
        can_play(*one, call, *hosts_, group_.size()))
      return one;
  return nullptr;
}

Status PlannedBackend::supports(const Collective& call, std::string_view wanted) const {
  if (call.in.device.kind != Device::Kind::cpu || call.out.device.kind != Device::Kind::cpu)
    return Status::failure(Code::unsupported, "the buffer is on a GPU, which this transport does not reach");
  if (algorithm(call, wanted) != nullptr) return {};
  const std::string kind(tutti::name(call.kind));
  if (wanted.empty())
    return Status::failure(Code::unsupported,
                           "no algorithm can do this " + kind + " on " + std::to_string(group_.size()) + " ranks");
  const Algorithm* const known = find_algorithm(call.kind, wanted);
  const std::string quoted = "the algorithm '" + std::string(wanted) + "' for " + kind;
  if (known == nullptr) return check_algorithm_name(own_name, wanted, call.kind, algorithms_of(call.kind));
  if (call.variable && !known->variable)
    return Status::failure(Code::invalid, quoted + " does not take counts per rank (" + kind + "v)");
  return Status::failure(Code::invalid, quoted + " does not work on " + std::to_string(group_.size()) + " ranks of " +
                                            std::to_string(hosts_->count()) + " host" +
                                            (hosts_->count() == 1 ? "" : "s") + "; the others are " +
                                            algorithm_names(call.kind));
}

const Algorithm* PlannedBackend::named(Kind kind, std::string_view wanted) {
  if (last_named_ == nullptr || last_named_->kind != kind || last_named_->name != wanted)
    last_named_ = find_algorithm(kind, wanted);
  return last_named_;
}

void PlannedBackend::start(Call& call) {
  const Algorithm* const chosen =
      call.algorithm.empty() ? algorithm(call.what, {}) : named(call.what.kind, call.algorithm);
  if (chosen == nullptr) throw Error(Code::internal, "nobody asked whether this call can be planned");
  PlannedCall::Owner& owner = *this;
  if (spare_.empty()) spare_.push_back(std::make_unique<PlannedCall>(shared_, owner));
  spare_.back()->prepare(call, *chosen);
  calls_.push_back(std::move(spare_.back()));
  spare_.pop_back();
  PlannedCall& made = *calls_.back();
  made.place = calls_.size() - 1;
  made.begin();
}

void PlannedBackend::ended(PlannedCall& played, const Status& status) {
  constexpr std::size_t most_spare = 64;
  const std::size_t place = played.place;
  std::unique_ptr<PlannedCall> self = std::move(calls_[place]);
  calls_[place] = std::move(calls_.back());
  calls_.pop_back();
  if (place < calls_.size()) calls_[place]->place = place;
  Call& call = played.call();
  const Status outcome = status;  // a copy: `status` belongs to the call
  self->trim();
  if (spare_.size() < most_spare) spare_.push_back(std::move(self));
  call.ended(outcome);  // may destroy this backend
}

void PlannedBackend::cancel(const Status& why) noexcept { shared_.wire.cancel(group_.id, why); }

// ---- one call -----------------------------------------------------------------------------------

void PlannedCall::prepare(Call& call, const Algorithm& algorithm) {
  made_by_ = &call;
  call_ = &call.what;
  algorithm_ = &algorithm;
  next_lane_ = busy_ = 0;
  any_data_ = false;
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

  lanes_ = {1, count_};
  ways_ = 1;
  if (call_->variable) {
    const Hosts* const hosts = algorithm_->crossing != nullptr ? &shared_.hosts : nullptr;
    in_table_.assign(call_->in_counts, hosts);
    out_table_.assign(call_->out_counts, hosts);
  } else {
    const Shape shape{.size = size, .count = count_, .root = call_->root, .hosts = &shared_.hosts};
    const std::size_t piece = made_by_->piece == 0 ? shared_.lane_bytes : made_by_->piece;
    lanes_ = lanes_of(*algorithm_, shape, size_of(call_->in.dtype), piece);
    if (lanes_.number > 1 && algorithm_->ways != nullptr)
      ways_ = std::min(static_cast<std::size_t>(algorithm_->ways(shape)), lanes_.number);
  }
  const std::size_t at_once = lanes_at_once(made_by_->piece, shared_.lane_bytes, shared_.max_lanes);
  slots_ = lanes_in_play(lanes_.number, at_once, ways_);
  if (ways_ > 1) {
    next_lanes_.resize(slots_);
    std::iota(next_lanes_.begin(), next_lanes_.end(), std::size_t{0});
  }
  ExecutionOwner& owner = *this;
  while (executions_.size() < slots_)
    executions_.push_back(std::make_unique<Execution>(shared_.wire, shared_.group, owner));
}

void PlannedCall::copy_input() {
  input_.clear();
  if (folds(call_->kind) && call_->op.op == Op::premul_sum && call_->in.data != nullptr) {
    input_.resize(call_->in.bytes());
    scale(call_->in.dtype, input_.data(), call_->in.data, call_->in.bytes(), call_->op.factor);
  } else if (overwrites_input(*call_)) {
    const ConstBytes data = call_->in.view();  // alltoall in place would overwrite blocks before they are sent
    input_.assign(data.begin(), data.end());
  }
}

void PlannedCall::trim() noexcept {
  const auto give_back = [this](const Schedule*& plan) {
    if (plan != nullptr) shared_.plans.give_back(*std::exchange(plan, nullptr));
  };
  for (std::size_t way = 0; way < ways_; ++way) give_back(plans_[way]);
  give_back(last_plan_);
  constexpr std::size_t most = 64 << 10;
  if (scratch_.capacity() > most) std::vector<std::byte>().swap(scratch_);
  if (input_.capacity() > most) std::vector<std::byte>().swap(input_);
  if (in_table_.bytes() > most) in_table_ = {};
  if (out_table_.bytes() > most) out_table_ = {};
}

void PlannedCall::play_next(std::size_t slot) {
  std::size_t& next = ways_ == 1 ? next_lane_ : next_lanes_[slot];
  const std::size_t lane = next;
  if (lane >= lanes_.number || !failure_.ok()) return;
  try {
    next += ways_ == 1 ? 1 : slots_;
    play_lane(slot, lane);
  } catch (const std::exception& error) {  // out of memory for the plan or its scratch; other lanes may be running
    const int me = shared_.wire.rank();
    failure_ = Status::failure(Code::resource,
                               "out of memory on rank " + std::to_string(me) + ": " + std::string(error.what()), me);
    made_by_->trouble(failure_);
  }
}

std::size_t PlannedCall::length_of(std::size_t lane) const noexcept {
  return std::min(lanes_.count, count_ - std::min(lane * lanes_.count, count_));
}

const Schedule& PlannedCall::planned(std::size_t lane) {
  const std::size_t count = length_of(lane), way = way_of(lane);
  const Schedule*& plan = count == lanes_.count ? plans_[way] : last_plan_;
  if (plan != nullptr) return *plan;
  const auto table = [](const BlockTable& blocks) { return blocks.empty() ? nullptr : &blocks; };
  Shape shape{.rank = shared_.group.rank, .size = shared_.group.size(), .count = count, .root = call_->root};
  shape.way = static_cast<int>(way);
  shape.hosts = &shared_.hosts;
  if (call_->variable) {
    shape.in_blocks = table(in_table_);
    shape.out_blocks = table(out_table_);
  }
  plan = &shared_.plans.take(*algorithm_, shape);
  return *plan;
}

// The first `ways_` lanes are the longest, and include every schedule. So they need the most scratch.
void PlannedCall::make_room() {
  std::size_t elements = 0;
  for (std::size_t lane = 0; lane < ways_; ++lane) elements = std::max(elements, planned(lane).scratch());
  scratch_bytes_ = (elements * size_of(call_->in.dtype) + 63) / 64 * 64;
  scratch_.resize(scratch_bytes_ * slots_);
}

void PlannedCall::play_lane(std::size_t slot, std::size_t lane) {
  if (lane == 0) make_room();
  const Schedule& plan = planned(lane);
  ++busy_;
  executions_[slot]->play(plan, memory_of(lane, slot),
                          {shared_.group.id, made_by_->sequence, static_cast<std::uint32_t>(lane)}, made_by_->summary);
}

LaneMemory PlannedCall::memory_of(std::size_t lane, std::size_t slot) const {
  const std::size_t first = lane * lanes_.count, count = length_of(lane);
  // Plans never write to `in`, so the const_cast is safe.
  auto* const in = const_cast<std::byte*>(input_.empty() ? call_->in.data : input_.data());
  LaneMemory memory;
  const bool whole = lanes_.number == 1;  // then slices may cross blocks, and blocks may have different sizes
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
  if (failure_.ok() && (ways_ > 1 || next_lane_ < lanes_.number)) {
    const auto slot = std::ranges::find_if(executions_, [&](const auto& one) { return one.get() == &execution; });
    ++busy_;  // guard while the next lane starts, as in begin()
    play_next(static_cast<std::size_t>(slot - executions_.begin()));
    --busy_;
  }
  if (busy_ == 0) owner_.ended(*this, failure_);
}

void PlannedCall::partners(const Call&, std::vector<int>& ranks) const {
  for (const auto& execution : executions_)
    if (execution->busy()) execution->partners(ranks, most_partners);
}

std::string PlannedCall::where(const Call&) const {
  for (const auto& execution : executions_)
    if (execution->busy()) return std::string(algorithm_->name) + " " + execution->where();
  return std::string(algorithm_->name);
}

}  // namespace tutti
