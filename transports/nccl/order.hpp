// Launch order: calls of several communicators are launched in one order on all ranks, whatever order each rank makes
// them in, as NCCL's kernels wait for the other ranks' and may keep one another from a device.
//
// Every rank of a call proposes a time, later than all that it knows of; the latest proposal is the call's time, and
// calls are launched in the order of their times (D. Skeen's ordering of multicasts, as in Birman and Joseph, "Reliable
// communication in the presence of failures", 1987). The group's first rank collects: two small messages per rank.
// While a context has one communicator, it does not wait for the outcome.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <tuple>

#include "transports/transport.hpp"

namespace tutti::nccl {

/// A call in the order.
struct OrderedCall {
  const Group* group = nullptr;                ///< stays until leave()
  std::uint32_t sequence = 0;                  ///< of the group's calls
  std::uint64_t signature = 0;                 ///< compared by whoever receives it
  std::function<void(const Status&)> trouble;  ///< its messages failed; not after leave()
};

/// Of one context. Token holder only, but for the making.
class LaunchOrder : public std::enable_shared_from_this<LaunchOrder> {
 public:
  /// The one of the context that has this wire.
  static std::shared_ptr<LaunchOrder> of(Transport& wire);
  explicit LaunchOrder(Transport& wire) : wire_(wire) {}

  class Place;
  /// Takes part in ordering the call. Calls of one communicator come in their order.
  std::shared_ptr<Place> join(OrderedCall call);
  /// Whether it is this call's turn, and stays so until launched().
  bool has_turn(const Place& place) const;
  /// NCCL has been asked for the call, and may launch it from now on, on a thread of its own.
  void begun(Place& place);
  /// The call is on the device, before all that are launched after this.
  void launched(Place& place);
  /// The call is over, well or not.
  void leave(Place& place);

  /// One communicator more, or less, launches in this context.
  void count(int change) noexcept { communicators_ += change; }

 private:
  using Time = std::uint64_t;
  using Key = std::tuple<Time, std::uint64_t, std::uint32_t>;  // time, group, sequence
  using Shared = std::shared_ptr<Place>;

  void propose(const Shared& place);
  void collect(const Shared& place);
  void submit(const Shared& place);
  void announce(const Shared& place, Time time);
  void settle(Place& place, Time time);
  void fail(Place& place, const Status& why);

  Transport& wire_;
  Time clock_ = 0;
  std::atomic<int> communicators_{0};
  int early_ = 0;               // begun before their time was known, which still is not
  std::set<Key> unlaunched_;    // by their time, or what was proposed
  std::deque<Shared> waiting_;  // to propose, until none is early
};

}  // namespace tutti::nccl
