// ParallelModule: a module whose parameters are parts of whole ones, held by the ranks of a group.
#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "nn/parallel/process_group.hpp"

namespace tutti::nn {

/// Which part of a whole parameter this rank has. A replica's box is the whole on every rank.
struct ParameterPart {
  std::string name;
  at::Tensor part;  ///< the registered parameter
  std::vector<std::int64_t> sizes;
  std::vector<Box> boxes;  ///< by rank of the group
  Group group;
};

/// Parameters are drawn whole, as the sequential layer draws them, and then cut: they do not depend on the number of
/// ranks. By their place in the whole any number of ranks can save and load them.
class ParallelModule : public torch::nn::Module {
 public:
  explicit ParallelModule(std::string name) : torch::nn::Module(std::move(name)) {}

  const std::vector<ParameterPart>& parts() const noexcept { return parts_; }
  /// Takes this rank's part of a whole parameter. Local. Throws Error{invalid} for another shape.
  void load(const std::string& parameter, const at::Tensor& whole);
  /// The whole parameter, or the whole gradient, on every rank. Collective, where the parameter is in parts.
  at::Tensor whole(const std::string& parameter) const;
  at::Tensor whole_gradient(const std::string& parameter) const;

 protected:
  /// Registers this rank's part of `whole`, whose dimensions are cut as `boxes` says. Undefined: registers nothing.
  at::Tensor add(const std::string& parameter, const at::Tensor& whole, std::vector<Box> boxes, const Group& group);
  /// The same with one dimension in parts, or none.
  at::Tensor add(const std::string& parameter, const at::Tensor& whole, std::int64_t dim, const Cut& cut,
                 const Group& group);
  at::Tensor add(const std::string& parameter, const at::Tensor& whole, const Group& group);

 private:
  const ParameterPart& find(const std::string& parameter) const;
  std::vector<ParameterPart> parts_;
};

/// Every part of every ParallelModule in a module, under the parameters' names in it.
std::vector<ParameterPart> parameter_parts(const torch::nn::Module& module);

/// Where parameters are drawn from. A seed of one's own must be equal on all ranks.
class Draw {
 public:
  /// Without a seed, rank 0 of the group draws one from LibTorch's generator and tells it: then collective.
  Draw(std::optional<std::uint64_t> seed, const Group& group);
  /// Uniform in [-1/sqrt(fan_in), 1/sqrt(fan_in)), what LibTorch's Linear and convolutions begin with. A generator that
  /// was seeded alike draws the same numbers for the sequential layer: weight first, then bias.
  at::Tensor uniform(at::IntArrayRef sizes, std::int64_t fan_in);
  at::Tensor normal(at::IntArrayRef sizes);  ///< mean 0, variance 1, as LibTorch's Embedding

 private:
  at::Generator generator_;
};

}  // namespace tutti::nn
