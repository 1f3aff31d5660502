// FragmentState: the parameters of one fragment and one element type, and their state between syncs.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/strategies/axes.hpp"
#include "engine/strategies/flat.hpp"
#include "engine/strategies/outer_optimizer.hpp"
#include "engine/strategies/strategy.hpp"
#include "nn/compression.hpp"

namespace tutti::engine::exchange {

/// A sync calls measure() and send(), and then, at once or some steps later, finish() and apply(). All ranks make the
/// same calls. Threads: one at a time.
class FragmentState {
 public:
  /// `axes` must outlive the object; its numbers may change between calls. `bytes` counts the bytes that are passed to
  /// collectives. Collective.
  FragmentState(std::vector<nn::NamedTensor> tensors, const Axes& axes, const Replica& replica,
                const nn::Compression* codec, nn::SyncStats& bytes);

  /// Sets the outer copy to the parameters.
  void remember();
  bool remembers() const { return outer_.defined(); }

  /// Fills the send buffer with the delta, the outer copy minus the parameters, or with the parameters.
  void measure();
  /// The L2 norm of each tensor in the send buffer; scale() multiplies each tensor by a number.
  std::vector<double> lengths() const;
  void scale(const std::vector<double>& factors);
  void scale(double factor);
  /// Starts the exchange of the send buffer.
  void send();
  /// Blocks until the exchange is done and its result is merged.
  void finish();
  bool sent() const noexcept { return sent_; }
  /// Scales each tensor of the merged delta to this length; a negative length leaves it as it is.
  void set_lengths(const std::vector<double>& lengths);
  /// With deltas, steps the outer copy by the merged one. Sets the parameters to the result, mixed by axes.alpha.
  void apply();
  /// With apply=eager, replaces all of these: steps by the last mean in which this rank's delta is replaced by its new
  /// one, and starts the exchange of the new one.
  void eager();

  /// Replaces the parameters by those to validate, and keeps them for restore().
  void judge();
  void restore();
  const std::vector<nn::NamedTensor>& names() const noexcept { return flat_.parts(); }

  std::vector<nn::NamedTensor> state() const;
  void load_state(const std::vector<nn::NamedTensor>& state);
  /// The number of elements kept besides the parameters, the optimizer and the codec's residual.
  std::int64_t kept() const;

 private:
  void mean_of_ranks(const at::Tensor& values);
  bool deltas() const noexcept { return axes_.what == Axes::What::deltas; }
  void step(const at::Tensor& delta);

  const Axes& axes_;
  Communicator world_;
  const std::shared_ptr<nn::TensorDevice> tensor_device_;
  Flat flat_;  // the send buffer, then the merged result
  nn::SyncStats& stats_;
  nn::SyncStats judging_;
  std::unique_ptr<nn::Exchange> exchange_;
  std::unique_ptr<nn::Codec> codec_;
  OuterOptimizer rule_;
  at::Tensor outer_, mine_, previous_;  // theta; the parameters between judge() and restore(); eager's last delta
  bool sent_ = false, arrived_ = false;
};

}  // namespace tutti::engine::exchange
