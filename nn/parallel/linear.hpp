// Linear layers whose weights lie in parts on the ranks of a group, along their outputs or their inputs.
#pragma once

#include <torch/nn/modules/common.h>
#include <torch/nn/modules/container/any.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <optional>
#include <string>

#include "nn/parallel/module.hpp"
#include "nn/parallel/placement.hpp"

namespace tutti::nn {

/// Of both layers. What only one of them has is said there.
struct ParallelLinearOptions {
  bool bias = true;
  std::optional<std::uint64_t> seed = {};  ///< of what is drawn; equal on all ranks
  std::string name = "linear";             ///< for errors
  std::int64_t unit = 1;                   ///< the split width is cut in multiples of it, as of an attention head's
  /// Column: brings the outputs together on every rank.
  bool gather_output = false;
  /// Row: whether inputs are this rank's part, as a column-parallel layer leaves them, or whole. Left out: their width
  /// tells.
  std::optional<bool> input_is_parallel = {};
  /// Inputs of the column and outputs of the row are parts along dimension `sequence_dim`, so that what lies between
  /// pairs is in parts too: allgather and reduce_scatter in the place of nothing and allreduce.
  bool sequence_parallel = false;
  std::int64_t sequence_dim = 0;
};

/// y = x W' + b, each rank with its rows of W: (out / p, in) and (out / p). Input replicated, output in parts along its
/// last dimension. Forward sends nothing, backward one allreduce of the input's gradient. Shoeybi et al.,
/// "Megatron-LM", 2019; in parts along the sequence, Korthikanti et al., 2022.
///
/// Uneven widths are cut with the first ranks the wider. Throws Error{invalid} where there are fewer units than ranks.
class ColumnParallelLinearImpl : public ParallelModule {
 public:
  ColumnParallelLinearImpl(std::int64_t in, std::int64_t out, Group group, ParallelLinearOptions options = {});
  /// `sequence`: the whole length along the sequence, where parts are uneven; 0: all are as long as this one.
  at::Tensor forward(const at::Tensor& input, std::int64_t sequence = 0);
  /// This rank's outputs of an input that has been prepared for parallel use already (copy_to).
  at::Tensor local(const at::Tensor& input) const;
  const Cut& cut() const noexcept { return cut_; }  ///< of the outputs

  at::Tensor weight, bias;

 protected:
  FORWARD_HAS_DEFAULT_ARGS({1, torch::nn::AnyValue(std::int64_t{0})})  // in a Sequential

 private:
  Group group_;
  ParallelLinearOptions options_;
  Cut cut_;
};
TORCH_MODULE(ColumnParallelLinear);

/// y = sum over ranks of x_r W_r' + b, each rank with its columns of W: (out, in / p), and all of b, which is added
/// once, after the sum. Output replicated. Forward sends one allreduce of the output, backward nothing, or an allgather
/// where inputs are whole.
class RowParallelLinearImpl : public ParallelModule {
 public:
  RowParallelLinearImpl(std::int64_t in, std::int64_t out, Group group, ParallelLinearOptions options = {});
  at::Tensor forward(const at::Tensor& input, std::int64_t sequence = 0);
  const Cut& cut() const noexcept { return cut_; }  ///< of the inputs

  at::Tensor weight, bias;

 protected:
  FORWARD_HAS_DEFAULT_ARGS({1, torch::nn::AnyValue(std::int64_t{0})})  // in a Sequential

 private:
  Group group_;
  ParallelLinearOptions options_;
  Cut cut_;
};
TORCH_MODULE(RowParallelLinear);

// The names of other systems. Stacks of TorchAD-NN's layers go over unchanged; their gradients are exact here.

/// TorchAD-NN: input whole, output whole, the weight in parts along its inputs.
RowParallelLinear MPInitialLinear(std::int64_t in, std::int64_t out, Group group, ParallelLinearOptions options = {});
/// TorchAD-NN: the same above another parallel layer.
RowParallelLinear MPBaseLinear(std::int64_t in, std::int64_t out, Group group, ParallelLinearOptions options = {});
/// TorchAD-NN: what has nothing to exchange is LibTorch's own, on parts or on the whole.
at::Tensor MPTanh(const at::Tensor& input);
at::Tensor MPInitialReshape(const at::Tensor& input, at::IntArrayRef sizes);  ///< of each sample
at::Tensor MPBaseReshape(const at::Tensor& input, at::IntArrayRef sizes);
/// neon: fully connected layers of the split vecpar, with and without a bias.
RowParallelLinear LayerDist(std::int64_t in, std::int64_t out, Group group, ParallelLinearOptions options = {});
RowParallelLinear LayerWithNoBiasDist(std::int64_t in, std::int64_t out, Group group,
                                      ParallelLinearOptions options = {});

}  // namespace tutti::nn
