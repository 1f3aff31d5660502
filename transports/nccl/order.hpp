// Launch order: launches the calls of several communicators in the same order on all ranks, since NCCL kernels of
// different communicators that wait for their peers may deadlock on a device otherwise.
//
// Every rank of a call proposes a logical time later than all it has seen. The latest proposal becomes the call's
// time, and calls are launched in the order of their times (D. Skeen's total order multicast, as in Birman and
// Joseph, "Reliable communication in the presence of failures", 1987). The group's first rank collects the proposals:
// two small messages per rank. With a single communicator in the context, launches do not wait for the outcome.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <tuple>

#include "tutti/provider/transport.hpp"

namespace tutti::nccl {

/// A call to be ordered.
struct OrderedCall {
  const Group* group = nullptr;                ///< valid until leave()
  std::uint32_t sequence = 0;                  ///< sequence number in the group
  std::uint64_t signature = 0;                 ///< compared by receivers
  std::function<void(const Status&)> trouble;  ///< reports a failure of its messages; not called after leave()
};

/// One per context. All functions except the constructor are called with the context's lock (progress token) held.
class LaunchOrder : public std::enable_shared_from_this<LaunchOrder> {
 public:
  /// The launch order of the context with this transport.
  static std::shared_ptr<LaunchOrder> of(Transport& wire);
  explicit LaunchOrder(Transport& wire) : wire_(wire) {}

  class Place;
  /// Starts ordering a call. Calls of one communicator are joined in their order.
  std::shared_ptr<Place> join(OrderedCall call);
  /// True if the call may be launched. Stays true until launched().
  bool has_turn(const Place& place) const;
  /// Tells that the call was issued to NCCL, which may launch it on another thread from now on.
  void begun(Place& place);
  /// Tells that the call is on the device, ahead of all calls launched later.
  void launched(Place& place);
  /// Tells that the call has ended, successfully or not.
  void leave(Place& place);

  /// Changes the number of communicators that launch in this context.
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
  int early_ = 0;               // number of calls that were issued and whose agreed time is not known yet
  std::set<Key> unlaunched_;    // by agreed time, or else by proposed time
  std::deque<Shared> waiting_;  // to be proposed when early_ is 0
};

}  // namespace tutti::nccl
