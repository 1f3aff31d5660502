// Choices: a cache of the selector's decisions for the calls of one communicator.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "collectives/route/selector.hpp"
#include "collectives/runtime/route.hpp"
#include "transports/core/layout.hpp"

namespace tutti {

/// The backends of a communicator, and the route (backend and algorithm) of each call. A choice depends on the call's
/// signature and its kind of device only, so the selector decides once for each of these. Any thread, except add().
/// Routes live as long as this object.
class Choices {
 public:
  /// Returns the number by which the flight recorder knows a route's text.
  using Numbered = std::function<std::uint8_t(std::string_view route)>;
  Choices(std::shared_ptr<const Selector> selector, const Group& group, bool says, Numbered numbered = {})
      : selector_(std::move(selector)), group_(group), says_(says), numbered_(std::move(numbered)) {}

  /// Adds a backend. The built-in plans (PlannedBackend) are added first.
  void add(std::shared_ptr<Backend> backend);
  bool has(std::string_view name) const;
  /// Moves the backends to the caller. No other function may be called afterwards.
  Backends take_backends() noexcept { return std::exchange(backends_, {}); }

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
  static constexpr std::uint64_t no_call = ~std::uint64_t{0};  // an empty entry; no signature has these bits

  // True if the signature holds the call's counts and root completely, so that it determines the route.
  static bool is_exact(const Collective& call) noexcept {
    return call.in.count < std::size_t{1} << 35 && call.out.count < std::size_t{1} << 35 && call.root < 1 << 15;
  }
  // A hash table by signature for one kind of device; its size is a power of two. When two calls collide, a larger
  // table replaces it, up to most_bits. Threads read it without the mutex.
  struct Table {
    explicit Table(int bits) : shift(64 - bits), slots(std::size_t{1} << bits) {}
    int shift;
    std::vector<Slot> slots;
    Slot& operator[](Signature summary) noexcept { return slots[summary.bits * 0x9e3779b97f4a7c15u >> shift]; }
  };
  static constexpr int first_bits = 3, most_bits = 8, bits_at_once = 2;

  const Route* recall(Signature summary, Device::Kind device) noexcept {
    Table* const table = tables_[static_cast<std::size_t>(device)].load(std::memory_order_acquire);
    if (table == nullptr) return nullptr;
    const Slot& slot = (*table)[summary];
    const std::uint32_t version = slot.version.load(std::memory_order_acquire);
    const std::uint64_t call = slot.call.load(std::memory_order_acquire);
    const Route* const route = slot.route.load(std::memory_order_acquire);
    if (call != summary.bits || version % 2 != 0) return nullptr;
    return slot.version.load(std::memory_order_relaxed) == version ? route : nullptr;
  }
  void remember(Signature summary, Device::Kind device, const Route& route);
  static void write(Slot& slot, std::uint64_t call, const Route* route) noexcept;
  const Route& decide(const Collective& call, Signature summary, const std::string& wanted);
  const Route& kept(const Choice& choice, Kind kind);
  Facts facts(const Collective& call) const noexcept;

  const std::shared_ptr<const Selector> selector_;
  const Group& group_;
  const int hosts_ = group_.hosts();
  const bool says_;  // true: logs each choice once
  const Numbered numbered_;
  Backends backends_;
  std::array<std::atomic<Table*>, 2> tables_{};  // by device kind; null before the first call

  mutable std::mutex mutex_;  // guards the members below, writes to tables_, and backends_ except in take_backends()
  std::vector<std::unique_ptr<Table>> all_tables_;  // also replaced ones, which other threads may still read
  std::list<std::pair<Kind, Route>> routes_;
  std::set<std::tuple<Kind, bool, const Rule*, std::string>> said_;
};

}  // namespace tutti
