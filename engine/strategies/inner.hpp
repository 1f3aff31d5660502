// InnerState: what a sync does with the optimizer's state and with buffers.
#pragma once

#include <vector>

#include "engine/strategies/axes.hpp"
#include "engine/strategies/flat.hpp"
#include "engine/strategies/strategy.hpp"
#include "nn/exchange.hpp"

namespace tutti::engine::exchange {

/// Every `inner_every` syncs, averages or resets the optimizer's state (DES-LOC, 2025), or leaves each rank its own.
/// With `with_buffers`, every sync averages floating-point buffers, such as running statistics. One thread at a time.
class InnerState {
 public:
  /// Collective.
  InnerState(const Axes& axes, const Replica& replica, bool with_buffers);

  /// Collective; blocks. `given` counts the bytes that are passed to collectives.
  void sync(nn::SyncStats& given);

  /// This rank's buffers, and the number of syncs.
  std::vector<nn::NamedTensor> state() const;
  void load_state(const std::vector<nn::NamedTensor>& state);

 private:
  void average(std::vector<Flat>& flats, nn::SyncStats& given);
  const Axes axes_;
  Replica replica_;
  std::vector<nn::NamedTensor> buffer_tensors_;
  std::vector<Flat> buffers_, memory_;
  std::size_t memory_tensors_ = 0;
  std::int64_t syncs_ = 0;
};

}  // namespace tutti::engine::exchange
