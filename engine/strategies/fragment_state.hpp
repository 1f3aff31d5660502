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

/// A sync calls measure() and send(); then, at once or some steps later, it calls finish() and apply(). All ranks make
/// the same calls. One thread at a time.
class FragmentState {
 public:
  /// `axes` must outlive the object; its numbers may change between calls. `bytes` counts bytes passed to collectives.
  /// Collective.
  FragmentState(std::vector<nn::NamedTensor> tensors, const Axes& axes, const Replica& replica,
                const nn::Compression* codec, nn::SyncStats& bytes);

  /// Copies the parameters to the outer copy.
  void remember();
  bool remembers() const { return outer_.defined(); }

  /// Fills the send buffer with the delta, the outer copy minus the parameters, or with the parameters.
  void measure();
  /// lengths() returns the L2 norm of each tensor in the send buffer. scale() multiplies each tensor by a number.
  std::vector<double> lengths() const;
  void scale(const std::vector<double>& factors);
  void scale(double factor);
  /// Starts the exchange of the send buffer. Collective.
  void send();
  /// Blocks until the exchange is complete and its result is merged. Does nothing if it is, or if none was started.
  void finish();
  bool sent() const noexcept { return sent_; }
  /// Scales each tensor of the merged delta to this length; a negative length leaves it as it is.
  void set_lengths(const std::vector<double>& lengths);
  /// With deltas, steps the outer copy by the merged delta. Sets the parameters to the result, mixed by axes.alpha.
  void apply();
  /// Replaces all the calls above if apply=eager. Steps the outer copy by the mean of the last exchange, in which this
  /// rank's delta is replaced by its new one, and starts the exchange of the new delta. Collective; blocks.
  void eager();

  /// judge() replaces the parameters by those to validate; it may be collective. restore() puts the own ones back.
  void judge();
  void restore();
  const std::vector<nn::NamedTensor>& names() const noexcept { return flat_.parts(); }

  std::vector<nn::NamedTensor> state() const;
  void load_state(const std::vector<nn::NamedTensor>& state);
  /// Returns the number of elements in memory besides the parameters, the optimizer and the codec's residual.
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
  at::Tensor outer_, mine_, previous_;  // theta; own parameters after judge(); eager: the last delta
  bool sent_ = false, arrived_ = false;
};

}  // namespace tutti::engine::exchange
