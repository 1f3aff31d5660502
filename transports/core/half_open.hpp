// HalfOpen: the connections to a listener that have not proved yet that they belong to the job. A stranger can make as
// many as it likes, so they are few, and each for a short time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "tutti/clock.hpp"

namespace tutti {

/// Connections are known by numbers, which grow in the order in which they came. One thread at a time.
class HalfOpen {
 public:
  using Number = std::uint64_t;

  /// For a listener that `ranks` ranks may call, all at once; 64 strangers fit in beside them.
  HalfOpen(std::size_t ranks, Seconds patience) : most_(64 + ranks), patience_(patience) {}

  /// Takes note of a connection. Returns the oldest one, which has to be closed, if there are too many now.
  std::optional<Number> add(Number number) {
    deadlines_.emplace(number, deadline_in(patience_));
    return deadlines_.size() > most_ ? take_oldest() : std::nullopt;
  }

  /// The connection has proved itself, or is closed. Others are ignored.
  void remove(Number number) { deadlines_.erase(number); }
  bool contains(Number number) const { return deadlines_.contains(number); }

  /// Removes and returns the oldest one, if there is any.
  std::optional<Number> take_oldest() {
    if (deadlines_.empty()) return std::nullopt;
    const Number oldest = deadlines_.begin()->first;
    deadlines_.erase(deadlines_.begin());
    return oldest;
  }

  /// When the next one will have had its time; never: there is none.
  Deadline next() const { return deadlines_.empty() ? never : deadlines_.begin()->second; }

  /// Removes and returns those that have had their time.
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
