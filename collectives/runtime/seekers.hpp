// Seekers: receives from any rank that have not matched a message yet.
#pragma once

#include <algorithm>
#include <deque>
#include <vector>

#include "tutti/provider/backend.hpp"
#include "tutti/provider/transport.hpp"

namespace tutti {

/// A receive that looks for a message among those that have arrived.
class Seeker {
 public:
  virtual ~Seeker() = default;
  /// Returns true once it has matched a message; it is not called again. Token held.
  virtual bool seek() = 0;
};

/// Tries the pending receives in every turn, and when a thread waits for one of them. Receives with the same tag
/// match in the order of their calls. The messages arrive through the transport, whose descriptors signal them. Token
/// held.
class Seekers final : public Engine {
 public:
  void add(const Tag& tag, Seeker& one) {
    auto line = std::ranges::find(lines_, tag, &Line::tag);
    if (line == lines_.end()) line = lines_.insert(line, {tag, {}});
    line->waiting.push_back(&one);
  }
  void drop(Seeker& one) noexcept {
    for (Line& line : lines_) std::erase(line.waiting, &one);
  }

  bool progress() override {
    bool moved = false;
    for (Line& line : lines_)
      for (; !line.waiting.empty() && line.waiting.front()->seek(); moved = true) line.waiting.pop_front();
    std::erase_if(lines_, [](const Line& line) { return line.waiting.empty(); });
    return moved;
  }
  Fds fds() const noexcept override { return {}; }
  bool arm(bool on) override { return !on || !progress(); }

 private:
  struct Line {
    Tag tag;
    std::deque<Seeker*> waiting;  // oldest first
  };
  std::vector<Line> lines_;
};

}  // namespace tutti
