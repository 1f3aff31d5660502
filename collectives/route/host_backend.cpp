#include "collectives/route/host_backend.hpp"

#include "collectives/plan/planned_backend.hpp"

namespace tutti {

HostBackend::HostBackend(Transport& wire, Group group, const Settings& settings,
                         std::shared_ptr<const Selector> selector)
    : group_([&] {
        // not 0 (no group) and not 1 (the world)
        group.id = (group.id ^ 0x5354414745ull) * 0x9e3779b97f4a7c15ull | 1u << 1;
        return std::move(group);
      }()),
      choices_(std::move(selector), group_, false) {
  backends_.push_back(std::make_shared<PlannedBackend>(wire, group_, settings));
  if (std::shared_ptr<Backend> own = wire.make_backend(group_)) backends_.push_back(std::move(own));
  for (const auto& one : backends_) choices_.add(one);
}

Status HostBackend::supports(const Collective& call, std::string_view algorithm) const {
  return backends_.front()->supports(call, algorithm);
}

void HostBackend::start(Call& call) {
  const Route& route = choices_.choose(call.what, signature(call.what, group_.rank, group_.size()), {});
  call.algorithm = route.algorithm;
  call.piece = route.piece;
  route.backend->start(call);
}

void HostBackend::cancel(const Status& why) noexcept {
  for (const auto& one : backends_) one->cancel(why);
}

bool HostBackend::progress() {
  bool moved = false;
  for (const auto& one : backends_) moved |= one->progress();
  return moved;
}

bool HostBackend::arm(bool on) {
  bool armed = true;
  for (const auto& one : backends_) armed &= one->arm(on);
  return armed;
}

bool HostBackend::polled() const noexcept {
  bool any = false;
  for (const auto& one : backends_) any |= one->polled();
  return any;
}

}  // namespace tutti
