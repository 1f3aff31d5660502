// Strategy: when ranks exchange during training, and what.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/config.hpp"
#include "engine/strategies/stats.hpp"
#include "nn/module.hpp"
#include "nn/tensor_device.hpp"
#include "tutti/communicator.hpp"

namespace tutti::engine {

class Optimizer;

/// What a strategy works on. Tensors and optimizer are this rank's; the optimizer must outlive the strategy.
struct Replica {
  Communicator world;
  std::shared_ptr<nn::TensorDevice> tensor_device;  ///< the device of the tensors
  std::vector<nn::NamedTensor> parameters, buffers;
  Optimizer& optimizer;
};

/// One step on one rank.
struct StepShare {
  std::size_t step = 0;                     ///< from 0, over all epochs
  double learning_rate = 0;                 ///< the optimizer's learning rate
  std::size_t count = 0, global_count = 0;  ///< samples of this rank, and of all ranks
  std::size_t pieces = 0;                   ///< number of backward passes of this rank; 0: the rank has no sample
};

/// The Trainer makes these calls, in the same order on every rank, on one thread:
///
///     begin_step(share)
///     begin_piece(0), a forward and a backward pass, end_piece(0), ...   // share.pieces of them
///     end_backward()            // then clipping, hooks and the optimizer's update
///     end_step()
///     settle()                  // before validation, before a checkpoint, at the end of an epoch and of training
///
/// Any of these calls may be collective; they throw what a collective threw. The strategy clears, scales and replaces
/// the parameters' gradients. Of these calls only settle(), end_step() and begin_step() change parameters. From
/// settle() to the next begin_step() the network has the parameters to validate and to save in a checkpoint. If ranks
/// continue with other parameters, the strategy keeps those aside as part of its state.
class Strategy {
 public:
  struct Traits {
    std::string name;                ///< all that its state depends on; a run can be resumed only with the same name
    std::string about = {};          ///< a description, such as "in 3 gradient buckets"
    double rate_factor = 1;          ///< multiplies the schedule's learning rate
    bool equal_when_settled = true;  ///< parameters are bitwise equal on all ranks after settle()
    bool alike_when_settled = true;  ///< state() and the optimizer's state are equal on all ranks after settle()
    bool equal_gradients = false;    ///< gradients are equal on all ranks after end_backward(), or NaN on all
    bool changes_alone = false;      ///< between two exchanges each rank changes its parameters on its own
    bool has_buffers = false;        ///< the strategy keeps the buffers equal on all ranks, so the trainer must not
  };

  virtual ~Strategy() = default;
  Strategy(const Strategy&) = delete;
  Strategy& operator=(const Strategy&) = delete;

  /// Clears the gradients.
  virtual void begin_step(const StepShare& share) = 0;
  /// Called before the forward pass of `count` samples. Returns the factor of their mean loss for the backward pass.
  virtual double begin_piece(std::size_t piece, std::size_t count) = 0;
  virtual void end_piece(std::size_t piece) { static_cast<void>(piece); }
  virtual void end_backward() {}
  virtual void end_step() {}
  virtual void settle() {}
  /// After end_step(): false if settle() would make an exchange out of turn. Equal on all ranks. Local.
  virtual bool ends_round() const { return true; }

  /// The strategy's state after settle(), besides parameters and optimizer. It is empty on all ranks or on none.
  /// Tensors may share the strategy's memory. After load_state() training continues bit for bit.
  virtual std::vector<nn::NamedTensor> state() const { return {}; }
  /// May be collective.
  virtual void load_state(const std::vector<nn::NamedTensor>& state) { static_cast<void>(state); }

  /// Sets a number of config.strategy, from the next step on: "outer_lr", "outer_momentum", "consensus", "elastic",
  /// "alpha" or "probability"; on workers "outer_lr", "elastic", "elastic_here", "alpha" or "kappa". All ranks make the
  /// same call. The number is not part of the state. Throws Error{invalid} for another key or a wrong value.
  virtual void set(std::string_view key, double value);

  const Traits& traits() const noexcept { return traits_; }
  const ExchangeStats& stats() const noexcept { return stats_; }

 protected:
  explicit Strategy(Traits traits) : traits_(std::move(traits)) {}
  ExchangeStats stats_;

 private:
  const Traits traits_;
};

/// Makes the strategy that the keys strategy.* and deterministic select. Collective; blocks. Throws Error{invalid}.
/// Throws Error{unsupported} for strategy.how=server: use train_by_masters().
std::unique_ptr<Strategy> make_strategy(const Config& config, Replica replica);

}  // namespace tutti::engine
