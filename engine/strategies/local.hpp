// Local: the base class of strategies whose ranks make updates of their own between syncs.
#pragma once

#include <functional>
#include <vector>

#include "engine/strategies/strategy.hpp"

namespace tutti::engine::exchange {

/// Weights a rank's loss by the rank's fraction of the samples times the number of ranks (1 with equal shares). So the
/// mean over the ranks is the mean over the samples.
class Local : public Strategy {
 public:
  Local(Traits traits, Replica replica);
  void begin_step(const StepShare& share) override;
  double begin_piece(std::size_t piece, std::size_t count) override;
  void end_backward() override;

 protected:
  const Replica& replica() const noexcept { return replica_; }
  Communicator& world() noexcept { return replica_.world; }
  const StepShare& share() const noexcept { return share_; }
  /// The trained parameters.
  const std::vector<nn::NamedTensor>& trained() const noexcept { return trained_; }
  /// Waits for queued computations, then runs `call` and adds its time to stats().wait_seconds.
  void waited(const std::function<void()>& call);

 private:
  Replica replica_;
  std::vector<nn::NamedTensor> trained_;
  StepShare share_;
};

}  // namespace tutti::engine::exchange
