// SyncBatchNorm: batch normalisation over the samples of all ranks.
#pragma once

#include <torch/nn/cloneable.h>
#include <torch/nn/options/batchnorm.h>
#include <torch/nn/pimpl.h>

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <memory>

#include "collectives/api/communicator.hpp"

namespace tutti::nn {

/// The ranks that normalise together.
class Meeting;

/// BatchNorm of 1, 2 or 3 dimensions with its parameters and buffers under its names. While training, mean and variance
/// are those of the samples of all ranks, however many each has, and the running statistics, which follow them, are the
/// same on all ranks. Until connect(), and while evaluating, it is a BatchNorm and nothing is sent.
///
///   forward   input (samples, channels, any...), one allgather of 2 channels + 1 numbers
///   backward  exact, one allreduce of 2 channels numbers; once differentiable
///
/// All ranks call forward and backward alike, a rank without samples with an input of none: (0, channels, any...). The
/// gradients of weight and bias are this rank's part, as those of all other parameters. The gradient that backward
/// begins with must be this rank's part of the whole loss' one, up to a factor that is the same on all ranks: where
/// ranks have unequally many samples, the loss of each is to be scaled by its share, not the gradients afterwards.
///
/// Ioffe and Szegedy, "Batch Normalization", ICML 2015; the parts' means and variances are put together after Chan,
/// Golub and LeVeque, 1979, in double.
class SyncBatchNormImpl : public torch::nn::Cloneable<SyncBatchNormImpl> {
 public:
  explicit SyncBatchNormImpl(std::int64_t channels);
  explicit SyncBatchNormImpl(const torch::nn::BatchNormOptions& settings);
  /// With tensors that are there already; those may be undefined that the options leave out.
  SyncBatchNormImpl(const torch::nn::BatchNormOptions& settings, const at::Tensor& scale, const at::Tensor& shift,
                    at::Tensor mean, at::Tensor variance, at::Tensor batches);

  void reset() override;
  void pretty_print(std::ostream& stream) const override;

  /// From now on the ranks of the meeting normalise together. Local.
  void connect(std::shared_ptr<Meeting> meeting) { meeting_ = std::move(meeting); }
  /// The same with the ranks of a communicator, which other calls may use in between.
  void connect(const Communicator& communicator);

  /// Throws Error{invalid} on all ranks where they have fewer than two values of a channel in all.
  at::Tensor forward(const at::Tensor& input);

  torch::nn::BatchNormOptions options;
  at::Tensor weight, bias, running_mean, running_var, num_batches_tracked;

 private:
  void keep(const at::Tensor& scale, const at::Tensor& shift, at::Tensor mean, at::Tensor variance, at::Tensor batches);
  double new_part();  // of the running statistics
  std::shared_ptr<Meeting> meeting_;
};
TORCH_MODULE(SyncBatchNorm);

/// Makes the BatchNorms of a module normalise over all ranks, in a communicator of their own; the tensors stay the same
/// ones. Returns how many there are. Those in a Sequential are exchanged, as are SyncBatchNorms wherever they are. C++
/// modules call their other children by members of fixed types, which nobody else can exchange: for these throws
/// Error{unsupported} with the child's name, and the module's class has to declare a SyncBatchNorm. Collective.
std::size_t convert_sync_batch_norm(torch::nn::Module& module, Communicator communicator);

}  // namespace tutti::nn
