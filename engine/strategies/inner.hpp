// InnerState: what becomes of the optimizer's memory and of the buffers when ranks are synced.
#pragma once

#include <vector>

#include "engine/strategies/axes.hpp"
#include "engine/strategies/flat.hpp"
#include "engine/strategies/strategy.hpp"
#include "nn/exchange.hpp"

namespace tutti::engine::exchange {

/// Every `inner_every` syncs the optimizer's memory is averaged or forgotten (DES-LOC, 2025), or it stays each rank's
/// own. Floating-point buffers, such as running statistics, become their mean at every sync. One thread at a time.
class InnerState {
 public:
  /// Collective.
  InnerState(const Axes& axes, const Replica& replica, bool with_buffers);

  /// Collective; blocks. `given` counts what is given to collectives.
  void sync(nn::SyncStats& given);

  /// The buffers of this rank, and how many syncs there were.
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
