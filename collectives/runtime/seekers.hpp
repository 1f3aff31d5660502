// Seekers: receives from whichever rank sends first that have not met a message yet.
#pragma once

#include <algorithm>
#include <deque>
#include <vector>

#include "transports/engine.hpp"
#include "transports/transport.hpp"

namespace tutti {

/// Looks for a message among those that have come.
class Seeker {
 public:
  virtual ~Seeker() = default;
  /// True once it has met one, and is to be asked no more. Token held.
  virtual bool seek() = 0;
};

/// Asked in every turn, and by whoever waits for one of them; those of one tag in the order of their calls, and none
/// where an older one has found nothing. What they look for comes by the transport, whose descriptors tell of it. Token
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
