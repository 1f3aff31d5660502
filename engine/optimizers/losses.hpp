// Losses and metrics that are selected by name.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace at {
class Tensor;
}

namespace tutti::engine {

/// A loss: the mean over the samples of a batch, as a tensor that backward() can start from. `output` is the network's
/// output, (samples, ...); `target` has the same number of samples.
using Loss = std::function<at::Tensor(const at::Tensor& output, const at::Tensor& target)>;

/// A metric: the mean over the samples of a batch. A run combines batches weighted by their numbers of samples.
struct Metric {
  std::string name;
  std::function<double(const at::Tensor& output, const at::Tensor& target)> mean;
  bool larger_is_better = true;
};

struct LossInfo {
  std::string_view name, meaning;
  std::string_view aliases;  ///< the names of Keras and mpi_learn, separated by blanks
  bool classes = false;      ///< the target is a class (an integer); else it has the output's shape
};
std::span<const LossInfo> loss_table() noexcept;

/// The loss with this name or alias. Throws Error{invalid} with a list of the names.
const LossInfo& loss_info(std::string_view name);
Loss make_loss(std::string_view name);

/// The default metrics. For `classes` classes: accuracy, and top-5 accuracy from 10 classes on. For numeric targets (0
/// classes): the mean absolute error.
std::vector<Metric> metrics_of(std::size_t classes);

}  // namespace tutti::engine
