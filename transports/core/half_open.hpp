// HalfOpen: the connections to a listener that have not proved yet that they belong to the job. A stranger can open any
// number of connections, so their number and their time are limited.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "tutti/clock.hpp"

namespace tutti {

/// Connections are identified by numbers, which grow in the order of their arrival. One thread at a time.
class HalfOpen {
 public:
  using Number = std::uint64_t;

  /// `ranks`: how many ranks may connect at the same time; there may be 64 other connections besides. `patience`: the
  /// time in which a connection has to prove itself.
  HalfOpen(std::size_t ranks, Seconds patience) : most_(64 + ranks), patience_(patience) {}

  /// Adds a connection. If there are too many now, removes and returns the oldest one, which the caller closes.
  std::optional<Number> add(Number number) {
    deadlines_.emplace(number, deadline_in(patience_));
    return deadlines_.size() > most_ ? take_oldest() : std::nullopt;
  }

  /// Removes a connection that has proved itself or is closed. Unknown numbers are ignored.
  void remove(Number number) { deadlines_.erase(number); }
  bool contains(Number number) const { return deadlines_.contains(number); }

  /// Removes and returns the oldest connection; nullopt if there is none.
  std::optional<Number> take_oldest() {
    if (deadlines_.empty()) return std::nullopt;
    const Number oldest = deadlines_.begin()->first;
    deadlines_.erase(deadlines_.begin());
    return oldest;
  }

  /// The deadline of the oldest connection; `never` if there is none.
  Deadline next() const { return deadlines_.empty() ? never : deadlines_.begin()->second; }

  /// Removes and returns the connections whose deadlines have passed.
  std::vector<Number> take_late(Deadline now) {
    std::vector<Number> late;
    while (!deadlines_.empty() && next() <= now) late.push_back(*take_oldest());
    return late;
  }

 private:
  const std::size_t most_;
  const Seconds patience_;
  std::map<Number, Deadline> deadlines_;
};

}  // namespace tutti
