// SyncBatchNorm: batch normalisation over the samples of all ranks.
#pragma once

#include <torch/nn/cloneable.h>
#include <torch/nn/options/batchnorm.h>
#include <torch/nn/pimpl.h>

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <memory>

#include "tutti/communicator.hpp"

namespace tutti::nn {

/// The communicator over which SyncBatchNorm layers normalise; layers of one module share one.
class Meeting;

/// BatchNorm1d, 2d or 3d with the same parameter and buffer names. In training, mean and variance are computed over the
/// samples of all ranks, which may have different numbers of them; so the running statistics are equal on all ranks. In
/// evaluation, and before connect(), it behaves as BatchNorm and communicates nothing.
///
///   forward   input (samples, channels, any...); one allgather of 2 channels + 1 f64 numbers
///   backward  exact; one allreduce of 2 channels f64 numbers; differentiable once
///
/// All ranks call forward and backward in the same order; a rank without samples passes an input of shape (0, channels,
/// any...). Gradients of weight and bias are this rank's contribution, as for other parameters. The gradient passed to
/// backward must be this rank's contribution to the gradient of the whole loss, up to a factor common to all ranks. If
/// ranks have different numbers of samples, scale each rank's loss by its share; do not scale the gradients afterwards.
///
/// Ioffe and Szegedy, "Batch Normalization", ICML 2015. Means and variances of the ranks are combined in f64 after
/// Chan, Golub and LeVeque, 1979.
class SyncBatchNormImpl : public torch::nn::Cloneable<SyncBatchNormImpl> {
 public:
  explicit SyncBatchNormImpl(std::int64_t channels);
  explicit SyncBatchNormImpl(const torch::nn::BatchNormOptions& settings);
  /// Uses existing tensors. Tensors that `settings` switches off (affine, track_running_stats) may be undefined.
  SyncBatchNormImpl(const torch::nn::BatchNormOptions& settings, const at::Tensor& scale, const at::Tensor& shift,
                    at::Tensor mean, at::Tensor variance, at::Tensor batches);

  void reset() override;
  void pretty_print(std::ostream& stream) const override;

  /// Normalises over the ranks of `meeting` from now on. Local.
  void connect(std::shared_ptr<Meeting> meeting) { meeting_ = std::move(meeting); }
  /// Normalises over the ranks of a communicator, which may also be used for other calls between forward and backward.
  void connect(const Communicator& communicator);

  /// Throws Error{invalid} on all ranks if the ranks together have fewer than two values per channel.
  at::Tensor forward(const at::Tensor& input);

  torch::nn::BatchNormOptions options;
  at::Tensor weight, bias, running_mean, running_var, num_batches_tracked;

 private:
  void keep(const at::Tensor& scale, const at::Tensor& shift, at::Tensor mean, at::Tensor variance, at::Tensor batches);
  double new_part();  // the weight of the new batch in the running statistics
  std::shared_ptr<Meeting> meeting_;
};
TORCH_MODULE(SyncBatchNorm);

/// Makes the BatchNorm layers of a module normalise over all ranks, in a duplicate of `communicator`; their tensors are
/// kept. Returns the number of layers. BatchNorms in a Sequential are replaced, and SyncBatchNorms anywhere in the
/// module are connected. A BatchNorm elsewhere is a member of a fixed C++ type, which cannot be replaced: throws
/// Error{unsupported} with its name; declare it as a SyncBatchNorm there. Collective.
std::size_t convert_sync_batch_norm(torch::nn::Module& module, Communicator communicator);

}  // namespace tutti::nn
