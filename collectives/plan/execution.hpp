// Execution: plays one schedule, for one lane, over a transport.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "collectives/plan/schedule.hpp"
#include "transports/backend.hpp"
#include "transports/transport.hpp"

namespace tutti {

/// One memory of a plan, as a lane sees it: `blocks` of `stride` elements lie at `base`, and the lane has
/// elements [offset, offset + count) of each. Plans count within the lane.
struct LaneView {
  std::byte* base = nullptr;
  std::size_t stride = 0;  ///< elements from block to block; 0: one block
  std::size_t offset = 0;
  std::size_t count = 0;

  std::byte* at(std::size_t element, std::size_t width) const noexcept {
    if (stride == 0 || count == 0) return base + (offset + element) * width;
    return base + ((element / count) * stride + offset + element % count) * width;
  }
};

/// The three memories of a lane, and how to fold there.
struct LaneMemory {
  LaneView in, out, scratch;
  Fold fold;
  double last_divisor = 1.0;  ///< for the fold that completes an element (avg)

  const LaneView& view(Memory memory) const noexcept {
    return memory == Memory::in ? in : memory == Memory::out ? out : scratch;
  }
};

class Execution;

/// To whom an execution reports.
class ExecutionOwner {
 public:
  virtual ~ExecutionOwner() = default;
  /// A step failed; others of its round are still under way and end when the group is cancelled.
  virtual void trouble(const Status& why) = 0;
  /// All is done, or nothing is under way any more after a failure.
  virtual void ended(Execution& execution, const Status& status) = 0;
};

/// Rounds are played in order: a round begins when all steps of the one before have ended. Token
/// holder only. The transport, the group and the owner outlive it.
class Execution {
 public:
  Execution(Transport& wire, const Group& group, ExecutionOwner& owner) : wire_(wire), group_(group), owner_(owner) {}

  /// Begins; may be called again after it ended. The owner hears of the end once each time, perhaps from in here.
  void play(std::shared_ptr<const Schedule> plan, const LaneMemory& memory, const Tag& tag, Signature call);

  bool busy() const noexcept { return plan_ != nullptr; }

  /// "round 3 of 6, waiting for rank 2" (world ranks).
  std::string where() const;

 private:
  void advance();
  void post(const Step& step);
  void step_done(const Status& status);
  std::byte* at(const Slice& slice) const noexcept {
    return memory_.view(slice.memory).at(slice.offset, memory_.fold.width());
  }

  Transport& wire_;
  const Group& group_;
  ExecutionOwner& owner_;
  std::shared_ptr<const Schedule> plan_;
  LaneMemory memory_;
  Tag tag_;
  std::uint64_t call_ = 0;
  std::size_t round_ = 0;  // the next one
  std::size_t open_ = 0;   // steps of this round that have not ended
  Status failure_;
};

}  // namespace tutti
