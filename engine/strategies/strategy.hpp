// Strategy: when ranks exchange while they train, and what.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "collectives/api/communicator.hpp"
#include "engine/config.hpp"
#include "engine/strategies/stats.hpp"
#include "nn/module.hpp"
#include "nn/site.hpp"

namespace tutti::engine {

class Optimizer;

/// What a strategy works on. Tensors and optimizer are this rank's and outlive the strategy.
struct Replica {
  Communicator world;
  std::shared_ptr<nn::Site> site;  ///< where the tensors are
  std::vector<nn::NamedTensor> parameters, buffers;
  Optimizer& optimizer;
};

/// A step, as a rank sees it.
struct StepShare {
  std::size_t step = 0;                     ///< from 0, over all epochs
  double learning_rate = 0;                 ///< the optimizer's
  std::size_t count = 0, global_count = 0;  ///< samples of this rank, and of all
  std::size_t pieces = 0;                   ///< backward passes that this rank makes; 0: it has no sample
};

/// The Trainer calls, on every rank alike and on one thread:
///
///     begin_step(share)
///     begin_piece(0), a forward and a backward pass, end_piece(0), ...   // share.pieces of them
///     end_backward()            // then clipping, hooks and the optimizer's update
///     end_step()
///     settle()                  // before validation, before a checkpoint, at the end of an epoch and of training
///
/// Any of these may be collective; they throw what a collective threw. Gradients of the parameters are the strategy's
/// to clear, scale and replace; parameters change in settle(), end_step() and begin_step() alone. From settle() to the
/// next begin_step() the parameters are those that are judged and kept: a strategy whose ranks go on from others keeps
/// these aside meanwhile, as a part of its state.
class Strategy {
 public:
  struct Traits {
    std::string name;                ///< rule and what its state depends on: the same where a run is resumed
    std::string about = {};          ///< for people: "in 3 gradient buckets"
    double rate_factor = 1;          ///< of the schedule's learning rate
    bool equal_when_settled = true;  ///< all ranks' parameters have the same bits after settle()
    bool alike_when_settled = true;  ///< and so have state() and what the optimizer remembers
    bool has_buffers = false;        ///< it keeps the buffers equal, too, so that nobody else is to
  };

  virtual ~Strategy() = default;
  Strategy(const Strategy&) = delete;
  Strategy& operator=(const Strategy&) = delete;

  /// Forgets the gradients.
  virtual void begin_step(const StepShare& share) = 0;
  /// Before the forward pass of `count` samples. What the mean of their losses is to be multiplied by for backward.
  virtual double begin_piece(std::size_t piece, std::size_t count) = 0;
  virtual void end_piece(std::size_t piece) { static_cast<void>(piece); }
  virtual void end_backward() {}
  virtual void end_step() {}
  virtual void settle() {}

  /// What it remembers from step to step beside parameters and optimizer, as it is after settle(): numbers are tensors
  /// of no dimension. Nothing, or on every rank something. Tensors share the strategy's memory. From load_state() it
  /// continues bit for bit.
  virtual std::vector<nn::NamedTensor> state() const { return {}; }
  /// Collective, as the others are.
  virtual void load_state(const std::vector<nn::NamedTensor>& state) { static_cast<void>(state); }

  /// A number of the strategy's, from the next step on: "outer_lr", "outer_momentum", "consensus", "elastic", "alpha"
  /// or "probability" of config.strategy. On all ranks alike. Not a part of the state. Throws Error{invalid} for
  /// another key, and for a value that the key does not take.
  virtual void set(std::string_view key, double value);

  const Traits& traits() const noexcept { return traits_; }
  const ExchangeStats& stats() const noexcept { return stats_; }

 protected:
  explicit Strategy(Traits traits) : traits_(std::move(traits)) {}
  ExchangeStats stats_;

 private:
  const Traits traits_;
};

/// The strategy that a configuration means (strategy.*, deterministic). Collective; blocks. Throws
/// Error{invalid}.
std::unique_ptr<Strategy> make_strategy(const Config& config, Replica replica);

}  // namespace tutti::engine
