// Local: what strategies share whose ranks make updates of their own between exchanges of parameters.
#pragma once

#include <vector>

#include "engine/exchange/flat.hpp"
#include "engine/exchange/strategy.hpp"

namespace tutti::engine::exchange {

/// Every `every` steps, and in settle() where there was a step since, exchange() makes the replicas equal. A rank's
/// losses are weighted by its part of the samples, times the ranks: with equal parts not at all. So the mean over the
/// ranks is the mean over the samples. What optimizers remember stays each rank's own.
class Local : public Strategy {
 public:
  Local(Traits traits, std::size_t every, Replica replica);
  void begin_step(const StepShare& share) override;
  double begin_piece(std::size_t piece, std::size_t count) override;
  void end_backward() override;

 protected:
  /// One more step was made. True: an exchange is due.
  bool due() { return ++since_ == every_; }
  std::size_t since() const noexcept { return since_; }  ///< steps since the last exchange
  /// Starts a reduction of what the flats hold.
  void start(Reduction reduction);
  void wait();
  std::vector<Flat>& flats() noexcept { return flats_; }

 private:
  const std::size_t every_;
  Replica replica_;
  std::vector<at::Tensor> trained_;
  std::vector<Flat> flats_;
  std::vector<Work> works_;  // after the flats: destroyed, and so waited for, before them
  StepShare share_;
  std::size_t since_ = 0;
};

}  // namespace tutti::engine::exchange
