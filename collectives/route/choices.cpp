#include "collectives/route/choices.hpp"

#include <algorithm>

#include "collectives/plan/planned_backend.hpp"
#include "tutti/log.hpp"

namespace tutti {

void Choices::add(std::shared_ptr<Backend> backend) {
  const std::lock_guard lock(mutex_);
  backends_.push_back(std::move(backend));
  for (const auto& table : all_tables_)
    // with the new backend, the choice for cached calls may be another one
    for (Slot& slot : table->slots) slot.call.store(no_call, std::memory_order_relaxed);
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
  if (says_ && said_.emplace(call.kind, call.variable, choice.rule, std::string(choice.algorithm)).second)
    say(describe(summary) + " -> " + selector_->explain(call, known, backends_));
  if (is_exact(call)) remember(summary, common_device(call).kind, route);
  return route;
}

// Linear search, since there are few distinct routes: they differ by rule, requested algorithm and size of piece.
const Route& Choices::kept(const Choice& choice, Kind kind) {
  for (const auto& [of, route] : routes_)
    if (of == kind && route.backend == choice.backend && route.algorithm == choice.algorithm &&
        route.piece == choice.piece)
      return route;
  const bool own_plans = choice.backend == backends_.front().get();
  Route route{choice.backend, std::string(choice.algorithm), choice.piece, own_plans,
              choice.backend->reports_waiting()};
  if (numbered_)
    route.recorded = numbered_(std::string(choice.backend->name()) +
                               (choice.algorithm.empty() ? "" : "/" + std::string(choice.algorithm)));
  return routes_.emplace_back(kind, std::move(route)).second;
}

void Choices::remember(Signature summary, Device::Kind device, const Route& route) {
  std::atomic<Table*>& current = tables_[static_cast<std::size_t>(device)];
  Table* table = current.load(std::memory_order_relaxed);
  const std::uint64_t there = table == nullptr ? no_call : (*table)[summary].call.load(std::memory_order_relaxed);
  const int bits = table == nullptr ? 0 : 64 - table->shift;
  if (table == nullptr || (there != no_call && there != summary.bits && bits < most_bits)) {
    const int wanted = table == nullptr ? first_bits : std::min(bits + bits_at_once, most_bits);
    Table& larger = *all_tables_.emplace_back(std::make_unique<Table>(wanted));
    if (table != nullptr)
      for (const Slot& slot : table->slots)
        if (const std::uint64_t call = slot.call.load(std::memory_order_relaxed); call != no_call)
          write(larger[Signature{call}], call, slot.route.load(std::memory_order_relaxed));
    current.store(&larger, std::memory_order_release);
    table = &larger;
  }
  write((*table)[summary], summary.bits, &route);
}

void Choices::write(Slot& slot, std::uint64_t call, const Route* route) noexcept {
  const std::uint32_t version = slot.version.load(std::memory_order_relaxed);
  slot.version.store(version + 1, std::memory_order_relaxed);
  slot.call.store(call, std::memory_order_release);
  slot.route.store(route, std::memory_order_release);
  slot.version.store(version + 2, std::memory_order_release);
}

}  // namespace tutti
