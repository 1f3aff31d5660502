// ParameterAverage: local SGD; ranks train independently and average their parameters every few steps.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "nn/exchange.hpp"
#include "nn/module.hpp"
#include "tutti/communicator.hpp"

namespace tutti::nn {

class TensorDevice;

/// Replaces each parameter by its mean over the ranks after every `period`-th step. All layers at once:
///
///     optimizer.step();
///     average.step();
///
/// or layer by layer, overlapped with computation:
///
///     average.next_step();
///     for (layer : last to first) { update(layer); average.start(layer); }
///     for (layer : first to last) { average.finish(layer); x = forward(layer, x); }     // of the next step
///
/// A layer is the set of parameters whose names are equal up to the last dot ("block1.conv"); it has one allreduce per
/// dtype. Its parameters must not change between start() and finish(). All ranks make the same calls in the same order.
/// One thread at a time.
class ParameterAverage {
 public:
  /// `parameters` have floating-point dtypes and are all on one device; the tensors are shared with the caller.
  /// Collective. Throws Error{invalid} if `period` is 0, and Error{unsupported} for other tensors.
  ParameterAverage(std::vector<NamedTensor> parameters, Communicator communicator, std::size_t period = 1);
  ParameterAverage(const torch::nn::Module& module, Communicator communicator, std::size_t period = 1);
  ~ParameterAverage();
  ParameterAverage(const ParameterAverage&) = delete;
  ParameterAverage& operator=(const ParameterAverage&) = delete;

  /// The names of the layers, in the order of their first parameters.
  std::vector<std::string> layers() const;

  /// Counts a step. Returns true if parameters are averaged after this step. Throws Error{invalid} with the name of a
  /// layer that has been started and not finished.
  bool next_step();
  /// Starts averaging a layer, if this step is one that averages. Throws Error{invalid} for an unknown layer or one
  /// already started.
  void start(const std::string& layer);
  /// Blocks until the layer's parameters hold the mean. Does nothing if the layer was not started.
  void finish(const std::string& layer);

  /// Calls next_step(), averages all layers if it returns true, and returns its result. Blocks.
  bool step();
  /// Averages all layers regardless of the step count. Blocks.
  void now();

  /// Number of averages of a layer so far. Throws Error{invalid} for an unknown layer.
  std::size_t exchanges(const std::string& layer) const;
  const SyncStats& stats() const noexcept { return stats_; }

 private:
  struct Layer;
  Layer& named(const std::string& layer) const;
  static void begin(Layer& layer);
  static void end(Layer& layer);

  SyncStats stats_;
  std::size_t period_, steps_ = 0;
  std::vector<std::unique_ptr<Layer>> layers_;
};

}  // namespace tutti::nn
