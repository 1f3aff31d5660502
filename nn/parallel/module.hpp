// ParallelModule: a module whose parameters are sharded over the ranks of a group.
#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "nn/parallel/process_group.hpp"

namespace tutti::nn {

/// The shard of a parameter that this rank holds. For a replicated parameter each rank's box is the whole.
struct ParameterPart {
  std::string name;
  at::Tensor part;  ///< the registered parameter, this rank's shard
  /// sizes of the whole parameter
  std::vector<std::int64_t> sizes;
  std::vector<Box> boxes;  ///< per rank of the group
  Group group;
};

/// Initial values are drawn for the whole parameter, as the sequential layer draws them, and then sharded, so they do
/// not depend on the number of ranks. Checkpoints store whole parameters, which any number of ranks can load.
class ParallelModule : public torch::nn::Module {
 public:
  explicit ParallelModule(std::string name) : torch::nn::Module(std::move(name)) {}

  const std::vector<ParameterPart>& parts() const noexcept { return parts_; }
  /// Copies this rank's shard out of a whole parameter. Local. Throws Error{invalid} for another shape.
  void load(const std::string& parameter, const at::Tensor& whole);
  /// The whole parameter, or its whole gradient (zero on ranks without one), on every rank. Collective if the parameter
  /// is sharded.
  at::Tensor whole(const std::string& parameter) const;
  at::Tensor whole_gradient(const std::string& parameter) const;

 protected:
  /// Registers this rank's shard of `whole`; rank r has boxes[r]. If `whole` is undefined, registers an undefined
  /// parameter.
  at::Tensor add(const std::string& parameter, const at::Tensor& whole, std::vector<Box> boxes, const Group& group);
  /// The same with one dimension sharded, or for a replicated parameter.
  at::Tensor add(const std::string& parameter, const at::Tensor& whole, std::int64_t dim, const Cut& cut,
                 const Group& group);
  at::Tensor add(const std::string& parameter, const at::Tensor& whole, const Group& group);

 private:
  const ParameterPart& find(const std::string& parameter) const;
  std::vector<ParameterPart> parts_;
};

/// parts() of every ParallelModule in `module`, with the parameters' full names.
std::vector<ParameterPart> parameter_parts(const torch::nn::Module& module);

/// Generator of initial values. A given seed must be the same on all ranks.
class Draw {
 public:
  /// Without a seed, rank 0 of the group draws one from LibTorch's default generator and broadcasts it, which is a
  /// collective call.
  Draw(std::optional<std::uint64_t> seed, const Group& group);
  /// Uniform in [-1/sqrt(fan_in), 1/sqrt(fan_in)), the default of LibTorch's Linear and convolutions. Drawing the
  /// weight, then the bias, gives the numbers of the sequential layer for a generator with the same seed.
  at::Tensor uniform(at::IntArrayRef sizes, std::int64_t fan_in);
  at::Tensor normal(at::IntArrayRef sizes);  ///< standard normal, the default of LibTorch's Embedding

 private:
  at::Generator generator_;
};

}  // namespace tutti::nn
