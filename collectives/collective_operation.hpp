// CollectiveOperation: one collective, cut into lanes that play the same algorithm.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "collectives/algorithm.hpp"
#include "collectives/execution.hpp"
#include "collectives/operation.hpp"

namespace tutti {

class PlanCache;

/// A buffer is cut into lanes of about `lane_bytes`, of which `max_lanes` are under way at a
/// time: while one waits for its round to end, the others keep the wire busy, and what a lane
/// has reduced is still in the cache when it is handed on.
class CollectiveOperation final : public Operation, private ExecutionOwner {
 public:
  struct Parts {
    Collective call;
    CallRecord record;
    Deadline until;
    const Algorithm* algorithm;
    std::shared_ptr<PlanCache> plans;
  };
  CollectiveOperation(std::shared_ptr<Context> context, std::shared_ptr<GroupState> group, Parts parts);
  std::string where() const override;

 private:
  void begin() override;
  void trouble(const Status& why) override;
  void ended(Execution& execution, const Status& status) override;

  void prepare();
  void check_first();
  void play_next(std::size_t slot);
  void play_lane(std::size_t slot);
  LaneMemory memory_of(std::size_t lane, std::size_t slot) const;

  Parts parts_;
  std::size_t count_ = 0;  // per block
  std::size_t blocks_in_ = 1, blocks_out_ = 1;
  std::size_t lanes_ = 1, lane_count_ = 0;  // all lanes but the last have lane_count_ elements
  std::size_t next_lane_ = 0;
  std::vector<std::unique_ptr<Execution>> executions_;  // by slot
  std::size_t busy_ = 0;
  std::size_t scratch_bytes_ = 0;  // per slot
  std::vector<std::byte> scratch_;
  std::vector<std::byte> input_;          // used for `in`: scaled by premul_sum's factor, or alltoall in place
  std::vector<std::int64_t> signatures_;  // TUTTI_VERIFY=full
  bool checking_ = false;
  Status failure_;
};

}  // namespace tutti
