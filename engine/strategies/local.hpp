// Local: what strategies share whose ranks make updates of their own between syncs.
#pragma once

#include <functional>
#include <vector>

#include "engine/strategies/strategy.hpp"

namespace tutti::engine::exchange {

/// A rank's losses are weighted by its part of the samples, times the ranks: with equal parts not at all. So the mean
/// over the ranks is the mean over the samples.
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
  /// Parameters that are trained, by name.
  const std::vector<nn::NamedTensor>& trained() const noexcept { return trained_; }
  /// Adds what `call` takes to the time that was waited, after what is computed.
  void waited(const std::function<void()>& call);

 private:
  Replica replica_;
  std::vector<nn::NamedTensor> trained_;
  StepShare share_;
};

}  // namespace tutti::engine::exchange
