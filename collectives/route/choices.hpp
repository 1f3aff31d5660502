// Choices: a cache of the selector's decisions for the calls of one communicator.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <tuple>

#include "collectives/route/selector.hpp"
#include "collectives/runtime/route.hpp"
#include "transports/core/layout.hpp"

namespace tutti {

/// The backends of a communicator, and the route of each call. A choice depends on the call's signature only, so the
/// selector is asked once per signature. Any thread, except add(). Routes live as long as this object.
class Choices {
 public:
  Choices(std::shared_ptr<const Selector> selector, const Group& group, bool says)
      : selector_(std::move(selector)), group_(group), says_(says) {}

  /// Adds a backend. The built-in plans (PlannedBackend) are added first.
  void add(std::shared_ptr<Backend> backend);
  bool has(std::string_view name) const;
  /// Releases the backends. No call may be made afterwards.
  void drop_backends() noexcept { backends_.clear(); }

  /// The route by the rules, or by `wanted` ("gloo/bcube") if it is not empty. Throws Error{invalid, unsupported}.
  const Route& choose(const Collective& call, Signature summary, const std::string& wanted) {
    if (wanted.empty() && is_exact(call))
      if (const Route* known = recall(summary, common_device(call).kind)) return *known;
    return decide(call, summary, wanted);
  }

  const std::shared_ptr<const Selector>& selector() const noexcept { return selector_; }
  /// See Communicator::explain.
  std::string explain(const Collective& call) const {
    const std::lock_guard lock(mutex_);
    return selector_->explain(call, facts(call), backends_);
  }

 private:
  // A cache entry, guarded by a sequence lock: `version` is odd while a thread writes it.
  struct Slot {
    std::atomic<std::uint32_t> version{0};
    std::atomic<std::uint64_t> call{no_call};
    std::atomic<const Route*> route{nullptr};
  };
  static constexpr std::uint64_t no_call = ~std::uint64_t{0};  // never a valid summary: no Kind has these bits

  // True if signature and device kind determine which route is chosen.
  static bool is_exact(const Collective& call) noexcept {
    return call.in.count < std::size_t{1} << 35 && call.out.count < std::size_t{1} << 35 && call.root < 1 << 15;
  }
  Slot& slot_of(Signature summary, Device::Kind device) noexcept {
    return slots_[static_cast<std::size_t>(device)][summary.bits * 0x9e3779b97f4a7c15u >> 56];
  }
  const Route* recall(Signature summary, Device::Kind device) noexcept {
    const Slot& slot = slot_of(summary, device);
    const std::uint32_t version = slot.version.load(std::memory_order_acquire);
    const std::uint64_t call = slot.call.load(std::memory_order_acquire);
    const Route* const route = slot.route.load(std::memory_order_acquire);
    if (call != summary.bits || version % 2 != 0) return nullptr;
    return slot.version.load(std::memory_order_relaxed) == version ? route : nullptr;
  }
  void remember(Slot& slot, Signature summary, const Route& route) noexcept;
  const Route& decide(const Collective& call, Signature summary, const std::string& wanted);
  const Route& kept(const Choice& choice, Kind kind);
  Facts facts(const Collective& call) const noexcept;

  const std::shared_ptr<const Selector> selector_;
  const Group& group_;
  const int hosts_ = group_.hosts();
  const bool says_;  // log each choice once
  Backends backends_;
  std::array<std::array<Slot, 256>, 2> slots_;  // by device kind and hash of the summary

  mutable std::mutex mutex_;  // guards the members below, writes to slots_, and backends_ except in drop_backends()
  std::deque<std::pair<Kind, Route>> routes_;
  std::set<std::tuple<Kind, bool, const Rule*>> said_;
};

}  // namespace tutti
