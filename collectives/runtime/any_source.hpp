// AnySource: receives from any rank that have not matched a message yet.
#pragma once

#include <algorithm>
#include <deque>
#include <vector>

#include "tutti/provider/backend.hpp"
#include "tutti/provider/transport.hpp"

namespace tutti {

/// A receive from any rank that has not matched a message yet.
class AnySourceReceive {
 public:
  virtual ~AnySourceReceive() = default;
  /// Tries to match a message that has arrived. Returns true if it did; it is not called again then. For the holder of
  /// the progress token.
  virtual bool match() = 0;
};

/// Tries to match the pending receives, in every pass over the engines and when a thread waits for one of them.
/// Receives with the same tag match in the order of their calls. This engine has no descriptors: the messages arrive
/// over the transport, whose descriptors report them. For the holder of the progress token.
class AnySource final : public Engine {
 public:
  void add(const Tag& tag, AnySourceReceive& one) {
    auto line = std::ranges::find(lines_, tag, &Line::tag);
    if (line == lines_.end()) line = lines_.insert(line, {tag, {}});
    line->waiting.push_back(&one);
  }
  void drop(AnySourceReceive& one) noexcept {
    for (Line& line : lines_) std::erase(line.waiting, &one);
  }

  bool progress() override {
    bool moved = false;
    for (Line& line : lines_)
      for (; !line.waiting.empty() && line.waiting.front()->match(); moved = true) line.waiting.pop_front();
    std::erase_if(lines_, [](const Line& line) { return line.waiting.empty(); });
    return moved;
  }
  Fds fds() const noexcept override { return {}; }
  bool arm(bool on) override { return !on || !progress(); }

 private:
  struct Line {
    Tag tag;
    std::deque<AnySourceReceive*> waiting;  // oldest first
  };
  std::vector<Line> lines_;
};

}  // namespace tutti
