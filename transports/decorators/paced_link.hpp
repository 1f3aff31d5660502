// The arithmetic of a link of limited bandwidth: when messages have left by it, and when they have come in. No clock.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <vector>

namespace tutti {

/// Points in time, from any origin that the caller keeps to.
using LinkTime = std::chrono::nanoseconds;

/// What leaves a rank. Messages to one peer leave one after the other, in the order in which they were pushed; peers
/// that messages are under way to have equal shares of the rate at any time. Times may not go back.
class OutgoingLink {
 public:
  /// 0: every message has left when it is pushed.
  explicit OutgoingLink(double bits_per_second) : bits_per_nanosecond_(bits_per_second * 1e-9) {}

  struct Departure {
    std::uint64_t id = 0;
    LinkTime when{0};  ///< its last bit left
  };

  void push(int peer, std::uint64_t id, std::size_t bytes, LinkTime now);
  /// Those that have left by `now`, in the order in which they did.
  std::vector<Departure> pop(LinkTime now);
  /// When the next one will have left, if nothing else is pushed.
  std::optional<LinkTime> next() const;
  /// Messages that are not to leave any more take no more of the rate.
  void erase(const std::function<bool(std::uint64_t id)>& which, LinkTime now);

 private:
  struct Message {
    std::uint64_t id;
    double bits;  // that have not left
  };
  using Flow = std::deque<Message>;
  std::map<int, Flow>::iterator shortest();
  std::optional<LinkTime> next_departure() const;
  void advance(LinkTime now);

  double bits_per_nanosecond_;
  LinkTime at_{0};
  std::map<int, Flow> flows_;  // by peer; none is empty
  std::deque<Departure> gone_;
};

/// What comes in to a rank, from all peers together, at the same rate. Messages have their bits spread over the time
/// before they come, so one that comes alone is not delayed.
class IncomingLink {
 public:
  explicit IncomingLink(double bits_per_second)
      : nanoseconds_per_bit_(bits_per_second > 0 ? 1e9 / bits_per_second : 0) {}

  /// When a message that comes at `now` has come through. Never earlier than the one before.
  LinkTime take(std::size_t bytes, LinkTime now);

 private:
  double nanoseconds_per_bit_;
  LinkTime free_{0};
};

}  // namespace tutti
