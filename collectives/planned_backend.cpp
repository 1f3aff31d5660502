#include "collectives/planned_backend.hpp"

#include "collectives/collective_operation.hpp"
#include "collectives/context.hpp"
#include "collectives/point_to_point.hpp"

namespace tutti {

std::shared_ptr<const Schedule> PlanCache::plan(const Algorithm& algorithm, const Shape& shape) {
  std::lock_guard lock(mutex_);
  for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
    if (entry->algorithm != &algorithm || entry->count != shape.count || entry->root != shape.root) continue;
    entries_.splice(entries_.begin(), entries_, entry);
    return entry->schedule;
  }
  if (entries_.size() == capacity) entries_.pop_back();
  entries_.push_front({&algorithm, shape.count, shape.root, std::make_shared<const Schedule>(algorithm.plan(shape))});
  return entries_.front().schedule;
}

PlannedBackend::PlannedBackend(std::shared_ptr<Context> context, std::shared_ptr<GroupState> group)
    : context_(std::move(context)), group_(std::move(group)) {}

Status PlannedBackend::supports(const Collective& call) const {
  if (call.in.device.kind != Device::Kind::cpu || call.out.device.kind != Device::Kind::cpu)
    return Status::failure(Code::unsupported, "the buffer is on a GPU, which this transport does not reach");
  return {};
}

Work PlannedBackend::launch(Collective call, const Launch& launch) {
  const CallRecord record{launch.sequence, launch.summary};
  std::shared_ptr<Operation> operation;
  if (call.kind == Kind::send) {
    operation = std::make_shared<PointToPoint>(context_, group_, std::move(call), launch.until);
  } else {
    const Algorithm* algorithm = find_algorithm(call.kind, launch.choice);
    if (algorithm == nullptr)
      throw Error(Code::internal, "nobody chose an algorithm for " + std::string(tutti::name(call.kind)));
    operation = std::make_shared<CollectiveOperation>(
        context_, group_, CollectiveOperation::Parts{std::move(call), record, launch.until, algorithm, plans_});
  }
  context_->launch(operation);
  return Work(operation);
}

std::unique_ptr<Backend> PlannedBackend::split(const Group& group) {
  return std::make_unique<PlannedBackend>(context_, context_->add_group(group));
}

void PlannedBackend::abort(const Status& why) noexcept {
  Cause cause = why.cause();
  cause.group = group_->group().id;
  context_->fail(cause);
}

}  // namespace tutti
