// PlannedCall: one collective, cut into lanes that play the same algorithm.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "collectives/plan/algorithm.hpp"
#include "collectives/plan/execution.hpp"
#include "transports/backend.hpp"

namespace tutti {

class PlanCache;

/// What all calls of a communicator share.
struct PlannedCalls {
  Transport& wire;
  const Group& group;
  PlanCache& plans;
  std::size_t lane_bytes, max_lanes;
};

/// A buffer is cut into lanes of about `lane_bytes`, of which `max_lanes` are under way at a
/// time: while one waits for its round to end, the others keep the wire busy, and what a lane
/// has reduced is still in the cache when it is handed on. Token holder only.
class PlannedCall final : private ExecutionOwner {
 public:
  /// Who takes the call back when it has ended, and reports its end.
  class Owner {
   public:
    virtual ~Owner() = default;
    virtual void ended(PlannedCall& call, const Status& status) = 0;
  };
  PlannedCall(const PlannedCalls& shared, Owner& owner) : shared_(shared), owner_(owner) {}

  /// For a call, and again for another one when that has ended: the memory that it took serves on.
  void prepare(Call& call, const Algorithm& algorithm);
  void begin();
  std::string where() const;
  Call& call() const noexcept { return *made_by_; }

  /// Keeps no large memory for the next call.
  void trim() noexcept;

  std::size_t place = 0;  ///< for the owner's use

 private:
  void trouble(const Status& why) override { made_by_->trouble(why); }
  void ended(Execution& execution, const Status& status) override;

  void cut_into_lanes();
  void copy_input();
  void play_next(std::size_t slot);
  void play_lane(std::size_t slot);
  LaneMemory memory_of(std::size_t lane, std::size_t slot) const;

  const PlannedCalls& shared_;
  Owner& owner_;
  Call* made_by_ = nullptr;
  const Collective* call_ = nullptr;  // of it
  const Algorithm* algorithm_ = nullptr;
  std::size_t count_ = 0;  // per block
  std::size_t blocks_in_ = 1, blocks_out_ = 1;
  std::size_t lanes_ = 1, lane_count_ = 0;  // all lanes but the last have lane_count_ elements
  std::size_t next_lane_ = 0;
  std::vector<std::unique_ptr<Execution>> executions_;  // by slot
  std::size_t slots_ = 0;                               // of those, the ones that this call uses
  std::size_t busy_ = 0;
  std::size_t scratch_bytes_ = 0;  // per slot
  std::vector<std::byte> scratch_;
  std::vector<std::byte> input_;  // used for `in`: scaled by premul_sum's factor, or alltoall in place
  Status failure_;
};

}  // namespace tutti
