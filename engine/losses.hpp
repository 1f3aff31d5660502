// Losses and metrics by name: what a network's output is judged by.
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

/// A number to be made smaller: the mean over the samples of a batch, as a tensor that backward() starts from.
/// `output` is what the network gave, (samples, ...); `target` has as many samples.
using Loss = std::function<at::Tensor(const at::Tensor& output, const at::Tensor& target)>;

/// A number to be looked at: its mean over the samples of a batch, which a run averages with the number of samples.
struct Metric {
  std::string name;
  std::function<double(const at::Tensor& output, const at::Tensor& target)> mean;
  bool larger_is_better = true;
};

struct LossInfo {
  std::string_view name, meaning;
  std::string_view aliases;  ///< the names that Keras and mpi_learn give it, separated by blanks
  bool classes = false;      ///< the target is a class, an integer; else it has the output's shape
};
std::span<const LossInfo> loss_table() noexcept;

/// The loss of that name or alias. Throws Error{invalid} listing what there is.
const LossInfo& loss_info(std::string_view name);
Loss make_loss(std::string_view name);

/// The metrics that suit the data: accuracy where the target is one of `classes`, with the first five from 10
/// classes on; the mean absolute error where the target is numbers (0 classes).
std::vector<Metric> metrics_of(std::size_t classes);

}  // namespace tutti::engine
