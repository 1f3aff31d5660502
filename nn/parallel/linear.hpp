// Linear layers with tensor parallelism: the weight is sharded over the ranks of a group by outputs (column) or by
// inputs (row).
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

/// Options of both layers; some apply to one of them only.
struct ParallelLinearOptions {
  bool bias = true;
  std::optional<std::uint64_t> seed = {};  ///< of the initial weights; the same on all ranks
  std::string name = "linear";             ///< for error messages
  std::int64_t unit = 1;  ///< the sizes of shards are multiples of this, for example the width of an attention head
  /// Column only: allgathers the outputs.
  bool gather_output = false;
  /// Row only. true: the input is this rank's shard, for example from a column-parallel layer. false: the input is
  /// whole. Default: determined from the input's width.
  std::optional<bool> input_is_parallel = {};
  /// Sequence parallelism: inputs of the column layer and outputs of the row layer are shards along dimension
  /// `sequence_dim`. An allgather before the column layer and a reduce_scatter after the row layer replace the
  /// allreduces.
  bool sequence_parallel = false;
  std::int64_t sequence_dim = 0;
};

/// y = x W' + b, with the rows of W sharded: weight (out / p, in), bias (out / p). The input is replicated, the output
/// a shard along its last dimension. Forward sends nothing; backward has one allreduce of the input's gradient. Shoeybi
/// et al., "Megatron-LM", 2019; sequence parallelism: Korthikanti et al., 2022.
///
/// If the width is not a multiple of the number of ranks, the first ranks have one unit more. Throws Error{invalid} if
/// there are fewer units than ranks.
class ColumnParallelLinearImpl : public ParallelModule {
 public:
  ColumnParallelLinearImpl(std::int64_t in, std::int64_t out, Group group, ParallelLinearOptions options = {});
  /// With sequence parallelism and shards of different lengths, `sequence` is the length of the whole sequence; 0: all
  /// shards are as long as this one.
  at::Tensor forward(const at::Tensor& input, std::int64_t sequence = 0);
  /// The outputs of this rank for an input that has already passed through copy_to(). Local.
  at::Tensor local(const at::Tensor& input) const;
  const Cut& cut() const noexcept { return cut_; }  ///< of the outputs

  at::Tensor weight, bias;

 protected:
  FORWARD_HAS_DEFAULT_ARGS({1, torch::nn::AnyValue(std::int64_t{0})})  // so that a Sequential can call forward(input)

 private:
  Group group_;
  ParallelLinearOptions options_;
  Cut cut_;
};
TORCH_MODULE(ColumnParallelLinear);

/// y = sum over ranks of x_r W_r' + b, with the columns of W sharded: weight (out, in / p). The bias is replicated and
/// added once, after the sum. The output is replicated. Forward has one allreduce of the output; backward has none, or
/// an allgather of the input's gradient if the input is whole.
class RowParallelLinearImpl : public ParallelModule {
 public:
  RowParallelLinearImpl(std::int64_t in, std::int64_t out, Group group, ParallelLinearOptions options = {});
  at::Tensor forward(const at::Tensor& input, std::int64_t sequence = 0);
  const Cut& cut() const noexcept { return cut_; }  ///< of the inputs

  at::Tensor weight, bias;

 protected:
  FORWARD_HAS_DEFAULT_ARGS({1, torch::nn::AnyValue(std::int64_t{0})})  // so that a Sequential can call forward(input)

 private:
  Group group_;
  ParallelLinearOptions options_;
  Cut cut_;
};
TORCH_MODULE(RowParallelLinear);

// The names that other systems use. Models of TorchAD-NN's layers can be ported by name; the gradients here are exact.

/// TorchAD-NN: input and output replicated, weight sharded by inputs.
RowParallelLinear MPInitialLinear(std::int64_t in, std::int64_t out, Group group, ParallelLinearOptions options = {});
/// TorchAD-NN: the same for the input of another parallel layer.
RowParallelLinear MPBaseLinear(std::int64_t in, std::int64_t out, Group group, ParallelLinearOptions options = {});
/// TorchAD-NN: layers without communication; they work on shards and on whole tensors.
at::Tensor MPTanh(const at::Tensor& input);
at::Tensor MPInitialReshape(const at::Tensor& input, at::IntArrayRef sizes);  ///< `sizes` without the sample dimension
at::Tensor MPBaseReshape(const at::Tensor& input, at::IntArrayRef sizes);
/// neon: fully connected layers of the split `vecpar`, with and without a bias.
RowParallelLinear LayerDist(std::int64_t in, std::int64_t out, Group group, ParallelLinearOptions options = {});
RowParallelLinear LayerWithNoBiasDist(std::int64_t in, std::int64_t out, Group group,
                                      ParallelLinearOptions options = {});

}  // namespace tutti::nn
