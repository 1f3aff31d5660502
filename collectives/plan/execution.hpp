// Execution: runs the schedule of one lane (a part of the buffer) over a transport.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "collectives/plan/schedule.hpp"
#include "tutti/provider/backend.hpp"
#include "tutti/provider/transport.hpp"

namespace tutti {

/// One memory of a lane (in, out or scratch): blocks that begin `stride` elements apart, the first at `base`. The lane
/// has elements [offset, offset + count) of each block. Its plan's offsets count the lane's elements only.
struct LaneView {
  std::byte* base = nullptr;
  std::size_t stride = 0;  ///< elements between the beginnings of blocks; 0: one block
  std::size_t offset = 0;
  std::size_t count = 0;

  std::byte* at(std::size_t element, std::size_t width) const noexcept {
    if (stride == 0 || count == 0) return base + (offset + element) * width;
    return base + ((element / count) * stride + offset + element % count) * width;
  }
};

/// The three memories of a lane, and the reduction.
struct LaneMemory {
  LaneView in, out, scratch;
  Fold fold;
  double last_divisor = 1.0;  ///< the fold that completes an element divides by it (avg)

  const LaneView& view(Memory memory) const noexcept {
    return memory == Memory::in ? in : memory == Memory::out ? out : scratch;
  }
};

class Execution;

/// The owner of an execution, which receives its reports.
class ExecutionOwner {
 public:
  virtual ~ExecutionOwner() = default;
  /// A step failed. Other steps of its round are still running, and end when the group is cancelled.
  virtual void trouble(const Status& why) = 0;
  /// The first message from another rank has arrived.
  virtual void first_data() = 0;
  /// All steps are done; or a step has failed and no step is running any more.
  virtual void ended(Execution& execution, const Status& status) = 0;
};

/// Runs the rounds in order. A round starts when all steps of the previous one have ended. A step starts as soon as the
/// schedule has made it. All functions are for the holder of the progress token. The transport, the group and the owner
/// must outlive the object.
class Execution {
 public:
  Execution(Transport& wire, const Group& group, ExecutionOwner& owner) : wire_(wire), group_(group), owner_(owner) {}

  /// Starts a schedule. Calls the owner's ended() once, possibly before it returns. `plan` must stay valid until then;
  /// after that, play() may be called again.
  void play(const Schedule& plan, const LaneMemory& memory, const Tag& tag, Signature call);

  bool busy() const noexcept { return plan_ != nullptr; }

  /// The state for a timeout's message: "in round 3 of 6 with rank 2, 5" (world ranks of the current round's messages).
  std::string where() const;

  /// Appends the world ranks of the peers whose messages of the current round have not ended. Adds no rank twice, and
  /// stops when `ranks` has `most` elements.
  void partners(std::vector<int>& ranks, std::size_t most) const;

 private:
  void advance();
  void post(const Step& step);
  void copy(const Step& step) const;
  void step_done(std::size_t number, bool received, const Status& status);
  std::byte* at(Memory memory, std::size_t element) const noexcept {
    return memory_.view(memory).at(element, memory_.fold.width());
  }
  std::byte* at(const Slice& slice) const noexcept { return at(slice.memory, slice.offset); }

  Transport& wire_;
  const Group& group_;
  ExecutionOwner& owner_;
  const Schedule* plan_ = nullptr;
  LaneMemory memory_;
  Tag tag_;
  std::uint64_t call_ = 0;
  int round_ = 0;            // the next round
  bool any_data_ = false;    // a message from another rank has arrived
  std::size_t open_ = 0;     // steps of the current round that have not ended
  std::vector<bool> ended_;  // for each message of the current round, in the order of the steps
  Status failure_;
};

}  // namespace tutti
