#include "collectives/plan/planned_backend.hpp"

#include <algorithm>

#include "transports/causes.hpp"

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

namespace {

bool can_play(const Algorithm& algorithm, const Collective& call, const Group& group) {
  if (call.variable && !algorithm.variable) return false;
  const Shape shape{.size = group.size(), .count = call.in.count, .root = call.root, .host = group.host};
  return algorithm.fits == nullptr || algorithm.fits(shape);
}

}  // namespace

PlannedBackend::PlannedBackend(Transport& wire, const Group& group, const Settings& settings)
    : group_(group),
      shared_{wire, group_, plans_, static_cast<std::size_t>(settings.lane_bytes),
              static_cast<std::size_t>(settings.max_lanes)} {}

PlannedBackend::~PlannedBackend() = default;

const Algorithm* PlannedBackend::algorithm(const Collective& call, std::string_view wanted) const {
  for (const Algorithm* one : catalog())
    if (one->kind == call.kind && (wanted.empty() || one->name == wanted) && can_play(*one, call, group_)) return one;
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
                                            std::to_string(group_.hosts()) + " host" +
                                            (group_.hosts() == 1 ? "" : "s") + "; the others are " +
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

}  // namespace tutti
