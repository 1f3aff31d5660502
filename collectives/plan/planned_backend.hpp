// PlannedBackend: the built-in algorithms, run over the context's transport. It works with every host transport.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "collectives/plan/algorithm.hpp"
#include "collectives/plan/execution.hpp"
#include "collectives/plan/geometry.hpp"
#include "collectives/plan/lanes.hpp"
#include "collectives/plan/plans.hpp"
#include "tutti/provider/backend.hpp"
#include "tutti/provider/transport.hpp"
#include "tutti/settings.hpp"
#include "tutti/topology.hpp"

namespace tutti {

/// What all calls of a communicator share.
struct PlannedCalls {
  Transport& wire;
  const Group& group;
  const Hosts& hosts;
  Plans& plans;
  std::size_t lane_bytes, max_lanes;
};

/// Performs one call. Divides its buffer into lanes, of which lanes_in_play() run at a time. While one lane waits for
/// the end of its round, the others keep the transport busy. A lane's reduced data is still in the cache when it is
/// sent. All functions are for the holder of the context's progress token.
class PlannedCall final : private ExecutionOwner, private Tracker {
 public:
  /// The owner of the object. ended() is called once per begin(), possibly before that returns; no lane runs then.
  class Owner {
   public:
    virtual ~Owner() = default;
    virtual void ended(PlannedCall& call, const Status& status) = 0;
  };
  PlannedCall(const PlannedCalls& shared, Owner& owner) : shared_(shared), owner_(owner) {}

  /// Prepares the object for a call. May be called again when that call has ended; allocated memory is reused.
  void prepare(Call& call, const Algorithm& algorithm);
  void begin();
  Call& call() const noexcept { return *made_by_; }

  /// Call it after the end of a call. Gives the plans back, and frees buffers of more than 64 KiB.
  void trim() noexcept;

  std::size_t place = 0;  ///< the owner's index of this object

 private:
  std::string where(const Call& call) const override;
  void partners(const Call& call, std::vector<int>& ranks) const override;
  void trouble(const Status& why) override { made_by_->trouble(why); }
  void first_data() override {
    if (!std::exchange(any_data_, true)) made_by_->first_data();
  }
  void ended(Execution& execution, const Status& status) override;

  void cut_into_lanes();
  std::size_t way_of(std::size_t lane) const noexcept { return ways_ == 1 ? 0 : lane % ways_; }
  std::size_t length_of(std::size_t lane) const noexcept;
  const Schedule& planned(std::size_t lane);
  void make_room();
  void copy_input();
  void play_next(std::size_t slot);
  void play_lane(std::size_t slot, std::size_t lane);
  LaneMemory memory_of(std::size_t lane, std::size_t slot) const;

  const PlannedCalls& shared_;
  Owner& owner_;
  Call* made_by_ = nullptr;
  const Collective* call_ = nullptr;  // current call's operands
  const Algorithm* algorithm_ = nullptr;
  std::size_t count_ = 0;  // elements per block
  std::size_t blocks_in_ = 1, blocks_out_ = 1;
  Lanes lanes_;
  std::size_t ways_ = 1;                                // lane i uses schedule i modulo ways_
  std::array<const Schedule*, most_ways> plans_{};      // those schedules, for lanes of full length
  const Schedule* last_plan_ = nullptr;                 // for the last lane if it is shorter
  BlockTable in_table_, out_table_;                     // of a v-form
  std::size_t next_lane_ = 0;                           // used if there is one way
  std::vector<std::size_t> next_lanes_;                 // by slot, used if there are several ways
  std::vector<std::unique_ptr<Execution>> executions_;  // by slot
  std::size_t slots_ = 0;                               // number of executions used by the current call
  std::size_t busy_ = 0;
  bool any_data_ = false;
  std::size_t scratch_bytes_ = 0;  // per slot
  std::vector<std::byte> scratch_;
  std::vector<std::byte> input_;  // replaces `in`: scaled for premul_sum, or a copy for alltoall in place
  Status failure_;
};

/// The backend of the built-in algorithms. Its calls advance with the transport, so the context does not drive it
/// separately.
class PlannedBackend final : public Backend, private PlannedCall::Owner {
 public:
  static constexpr std::string_view own_name = "planned";

  PlannedBackend(Transport& wire, const Group& group, const Settings& settings);
  ~PlannedBackend() override;

  std::string_view name() const noexcept override { return own_name; }
  Status supports(const Collective& call, std::string_view algorithm) const override;
  void start(Call& call) override;
  void cancel(const Status& why) noexcept override;

  /// The algorithm named `wanted` if it supports this call; if `wanted` is empty, the first algorithm in the catalog
  /// that supports it. Null if there is none.
  const Algorithm* algorithm(const Collective& call, std::string_view wanted) const;

  const Hosts& hosts() const noexcept { return *hosts_; }

  bool progress() override { return shared_.wire.progress(); }
  Fds fds() const noexcept override { return {}; }
  bool arm(bool) override { return true; }

 private:
  void ended(PlannedCall& call, const Status& status) override;
  const Algorithm* named(Kind kind, std::string_view wanted);

  const Group group_;
  const std::shared_ptr<const Hosts> hosts_;
  Plans plans_;
  const Algorithm* last_named_ = nullptr;  // last result of named(): most calls name the same algorithm again
  const PlannedCalls shared_;
  std::vector<std::unique_ptr<PlannedCall>> calls_;  // in flight
  std::vector<std::unique_ptr<PlannedCall>> spare_;  // ended, kept for reuse
};

}  // namespace tutti
