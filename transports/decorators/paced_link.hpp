// The model of a link of limited bandwidth: computes when messages leave and arrive. Uses no clock.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <vector>

namespace tutti {

/// A point in time, relative to any fixed origin.
using LinkTime = std::chrono::nanoseconds;

/// The outgoing side of a link. Messages to one peer leave in the order of push(); peers with pending messages share
/// the rate equally. Times must not decrease.
class OutgoingLink {
 public:
  /// A rate of 0 is unlimited.
  explicit OutgoingLink(double bits_per_second) : bits_per_nanosecond_(bits_per_second * 1e-9) {}

  struct Departure {
    std::uint64_t id = 0;
    LinkTime when{0};  ///< when its last bit left
  };

  void push(int peer, std::uint64_t id, std::size_t bytes, LinkTime now);
  /// The messages that have left by `now`, in order.
  std::vector<Departure> pop(LinkTime now);
  /// When the next message will have left, if no other is pushed; nullopt if there is none.
  std::optional<LinkTime> next() const;
  /// Removes messages, so that they use no bandwidth.
  void erase(const std::function<bool(std::uint64_t id)>& which, LinkTime now);

 private:
  struct Message {
    std::uint64_t id;
    double bits;  // bits that are not sent yet
  };
  using Flow = std::deque<Message>;
  std::map<int, Flow>::iterator shortest();
  std::optional<LinkTime> next_departure() const;
  void advance(LinkTime now);

  double bits_per_nanosecond_;
  LinkTime at_{0};
  std::map<int, Flow> flows_;  // by peer; no Flow in it is empty
  std::deque<Departure> gone_;
};

/// The incoming side of a link, shared by all peers, with the same rate. The bits of a message use the link in the time
/// before its arrival, so a single message is not delayed.
class IncomingLink {
 public:
  explicit IncomingLink(double bits_per_second)
      : nanoseconds_per_bit_(bits_per_second > 0 ? 1e9 / bits_per_second : 0) {}

  /// When a message that arrives at `now` is received completely. Never earlier than the previous one.
  LinkTime take(std::size_t bytes, LinkTime now);

 private:
  double nanoseconds_per_bit_;
  LinkTime free_{0};
};

}  // namespace tutti
