// ParameterAverage: ranks train by themselves and put their parameters' mean in place every few steps.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "collectives/api/communicator.hpp"
#include "nn/exchange.hpp"
#include "nn/module.hpp"

namespace tutti::nn {

class Site;

/// After every `period`-th step each parameter becomes its mean over the ranks; one counter for all layers. At once:
///
///     optimizer.step();
///     average.step();
///
/// or layer by layer, beside what is computed meanwhile:
///
///     average.next_step();
///     for (layer : last to first) { update(layer); average.start(layer); }
///     for (layer : first to last) { average.finish(layer); x = forward(layer, x); }     // of the next step
///
/// A layer is the parameters whose names agree up to the last dot ("block1.conv"); it travels in one allreduce for each
/// element type. Between start() and finish() its parameters are not to be changed. All ranks make the same calls in
/// the same order, one thread at a time.
class ParameterAverage {
 public:
  /// Collective. The tensors are shared, of any floating-point types, and all on one device.
  ParameterAverage(std::vector<NamedTensor> parameters, Communicator communicator, std::size_t period = 1);
  ParameterAverage(const torch::nn::Module& module, Communicator communicator, std::size_t period = 1);
  ~ParameterAverage();
  ParameterAverage(const ParameterAverage&) = delete;
  ParameterAverage& operator=(const ParameterAverage&) = delete;

  /// The layers' names, in the order of their first parameters.
  std::vector<std::string> layers() const;

  /// Counts a step. Whether it is one whose parameters are averaged. Throws Error{invalid} with the name of a layer
  /// that was not finished.
  bool next_step();
  /// Begins a layer's average, if this step is one. Throws Error{invalid} for a layer that is not there or has begun.
  void start(const std::string& layer);
  /// Blocks until the layer has the mean. Nothing where nothing was begun.
  void finish(const std::string& layer);

  /// next_step(), and where it is one, all layers. Whether it was. Blocks.
  bool step();
  /// All layers now, whatever the counter says. Blocks.
  void now();

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
