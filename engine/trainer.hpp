// Trainer: data-parallel training of an image classifier, with hooks.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "collectives/communicator.hpp"
#include "engine/config.hpp"
#include "engine/data/dataset.hpp"
#include "engine/models/network.hpp"
#include "engine/report.hpp"

namespace tutti::engine {

/// The network that config.model names, initialised from config.seed: the same on every rank. Throws
/// Error{invalid} if the images are too small for it. One thread at a time: LibTorch has one random generator.
Network make_network(const Config& config, const ImageShape& image, std::size_t classes);

/// Says where `network` is to be trained, as config.device has it: a device by Communicator::device(), or the CPU.
/// Collective; blocks. Throws Error{invalid} on all ranks alike where that cannot be.
void settle(Network& network, const Config& config, Communicator& world);

/// Where training is, as a hook sees it. Tensors are this rank's part; null before they exist, and
/// `output` also when the rank has no sample in this step.
struct Moment {
  std::size_t epoch = 0;  ///< from 0
  std::size_t step = 0;   ///< from 0, over all epochs
  double learning_rate = 0;
  double loss = 0;  ///< mean over this rank's samples; from on_forward on
  const at::Tensor* input = nullptr;
  const at::Tensor* target = nullptr;
  const at::Tensor* output = nullptr;
  const EpochResult* result = nullptr;  ///< in on_end_epoch and on_end
};

/// Called in this order, on every rank alike. In on_backward the gradients are already averaged.
struct Hooks {
  using Hook = std::function<void(const Moment&)>;
  Hook on_start = {}, on_start_epoch = {}, on_sample = {}, on_forward = {}, on_backward = {}, on_update = {},
       on_end_epoch = {}, on_end = {};
};

/// The same on all ranks.
struct TrainResult {
  std::vector<double> losses;  ///< mean over the global batch, of each step
  std::vector<EpochResult> epochs;
};

/// Training ended, but then the replicas were found to differ (code() is mismatch) or could not be compared.
struct ReplicaError : Error {
  ReplicaError(const Error& why, TrainResult found)
      : Error(why.code(), why.what(), why.culprit()), result(std::move(found)) {}
  TrainResult result;  ///< what train() would have returned
};

/// Moves `network` to its site, and trains it on all ranks of `world` with SGD, at one global batch whatever the number
/// of ranks. Buffers, such as running statistics, are each rank's own during an epoch; config.buffers says what becomes
/// of them at its end, before the held-out images are looked at. Where they stay each rank's own, every rank judges its
/// share of these images with its own. Ends with check_replicas(), which includes the buffers unless they stay each
/// rank's own. Collective; `data` must be the same on all ranks. Throws tutti::Error; after on_end, ReplicaError.
TrainResult train(const Config& config, Communicator world, Network network, const DataSplit& data,
                  const Hooks& hooks = {});

}  // namespace tutti::engine
