#include "collectives/route/choices.hpp"

#include <algorithm>

#include "collectives/plan/planned_backend.hpp"
#include "tutti/log.hpp"

namespace tutti {

void Choices::add(std::shared_ptr<Backend> backend) {
  const std::lock_guard lock(mutex_);
  backends_.push_back(std::move(backend));
  for (auto& of_kind : slots_)
    // the new backend may change the choice of cached calls
    for (Slot& slot : of_kind) slot.call.store(no_call, std::memory_order_relaxed);
}

bool Choices::has(std::string_view name) const {
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(backends_, [&](const auto& backend) { return backend->name() == name; });
}

Facts Choices::facts(const Collective& call) const noexcept {
  const std::size_t bytes = block_count(call, group_.size()) * size_of(call.in.dtype);
  return {call.kind, call.variable ? 0 : bytes, group_.size(), hosts_, common_device(call).kind};
}

const Route& Choices::decide(const Collective& call, Signature summary, const std::string& wanted) {
  const Facts known = facts(call);
  const std::lock_guard lock(mutex_);
  const Choice choice =
      wanted.empty() ? selector_->choose(call, known, backends_) : selector_->require(wanted, call, known, backends_);
  if (choice.backend == nullptr) {  // the built-in plans give the most useful reason
    const Status able = backends_.front()->supports(call, {});
    throw Error(able.cause(), std::string(able.text()));
  }
  const Route& route = kept(choice, call.kind);
  if (!wanted.empty()) return route;
  if (says_ && said_.emplace(call.kind, call.variable, choice.rule).second)
    say(describe(summary) + " -> " + selector_->explain(call, known, backends_));
  if (is_exact(call)) remember(slot_of(summary, common_device(call).kind), summary, route);
  return route;
}

// Linear search: there are only as many distinct routes as rules and requested algorithms.
const Route& Choices::kept(const Choice& choice, Kind kind) {
  for (const auto& [of, route] : routes_)
    if (of == kind && route.backend == choice.backend && route.algorithm == choice.algorithm) return route;
  const bool own_plans = choice.backend == backends_.front().get();
  return routes_.emplace_back(kind, Route{choice.backend, std::string(choice.algorithm), own_plans}).second;
}

void Choices::remember(Slot& slot, Signature summary, const Route& route) noexcept {
  const std::uint32_t version = slot.version.load(std::memory_order_relaxed);
  slot.version.store(version + 1, std::memory_order_relaxed);
  slot.call.store(summary.bits, std::memory_order_release);
  slot.route.store(&route, std::memory_order_release);
  slot.version.store(version + 2, std::memory_order_release);
}

}  // namespace tutti
