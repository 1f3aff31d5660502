// Losses and metrics that are selected by name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
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

/// A metric: the mean over the samples of a batch. A run combines the means of batches, weighted by their numbers of
/// samples. If `mean` is empty, the metric is what `of_all` computes from all held-out samples at once.
struct Metric {
  std::string name;
  std::function<double(const at::Tensor& output, const at::Tensor& target)> mean = {};
  bool larger_is_better = true;
  /// For networks with one output: called on every rank with the outputs and the targets of all held-out samples.
  std::function<double(std::span<const double> outputs, std::span<const double> targets)> of_all = {};
};

struct LossInfo {
  /// The kind of output that the network must have.
  enum class Output : std::uint8_t {
    scores,             ///< one real number for each class
    log_probabilities,  ///< one logarithm of a probability for each class
    numbers,            ///< as many real numbers as the target has
    binary_scores,      ///< one real number for two classes; or as many as the target has numbers from 0 to 1
    probabilities,      ///< as binary_scores, but each output is from 0 to 1
  };
  std::string_view name, meaning;
  std::string_view aliases;  ///< the names of Keras and mpi_learn, separated by blanks
  Output output = Output::scores;

  /// wants_classes(): the target is a class (an integer). is_binary(): the target is one of two classes, or numbers
  /// from 0 to 1. If both are false, the target is numbers.
  bool wants_classes() const noexcept { return output == Output::scores || output == Output::log_probabilities; }
  bool is_binary() const noexcept { return output == Output::binary_scores || output == Output::probabilities; }
};
std::span<const LossInfo> loss_table() noexcept;

/// Returns the loss with this name or alias. Throws Error{invalid} with a list of the names.
const LossInfo& loss_info(std::string_view name);
/// Returns the loss with this name. `smoothing` is the part of a target's probability that is spread evenly over all
/// classes (Szegedy et al. 2016); it is for cross_entropy only. Throws Error{invalid}.
Loss make_loss(std::string_view name, double smoothing = 0);

/// The properties of the target that loss and metrics depend on.
struct Targets {
  std::size_t classes = 0;  ///< number of classes; 0: the target is numbers
  std::size_t numbers = 1;  ///< how many numbers the target of each sample has
};

/// Returns the number of outputs that a network needs for these targets: one per class, one for two classes with a
/// binary loss, or one per number.
std::size_t outputs_for(const LossInfo& loss, const Targets& targets);

/// Throws Error{invalid}, and suggests another loss, if the loss `given` by the user does not fit the targets.
void check_targets(std::string_view given, const Targets& targets);

/// Throws Error{invalid}, with a correction, if a network's output for some samples, (samples, ...), does not fit loss
/// and targets. `model` is its name. `gives_scores` is true for models of the table: none of them ends in
/// probabilities.
void check_output(std::string_view given, const Targets& targets, const at::Tensor& output, std::string_view model,
                  bool gives_scores);

/// Throws Error{invalid} if the loss needs targets from 0 to 1 and one of these targets is outside.
void check_numbers(std::string_view given, const at::Tensor& targets);

/// The default metrics, in this order:
///
///     loss                   target             outputs   metrics
///     cross_entropy, nll     C classes          C         accuracy; from 10 classes on top-5 accuracy
///     bce_logits, bce        two classes        1         accuracy with the threshold 0, or 0.5; AUC
///     bce_logits, bce        numbers 0 and 1    1         the same
///     bce_logits, bce        n numbers 0 and 1  n         accuracy over all of them
///     mse, l1, smooth_l1     n numbers          n         absolute error
std::vector<Metric> metrics_of(const LossInfo& loss, const Targets& targets);

/// The area under the curve of true over false positives: the probability that a sample of class 1 has a larger output
/// than one of class 0, where equal ones count half (Mann and Whitney 1947). Targets above 0.5 are of class 1. Returns
/// NaN if all samples are of one class, or if an output is NaN.
double area_under_curve(std::span<const double> outputs, std::span<const double> targets);

/// Returns the index in `metrics` of the metric that the user names, in any usual spelling ("top-5 accuracy",
/// "top_5_accuracy", "val_accuracy"). Returns nothing for the loss ("loss", "val_loss", "held_out_loss"). Throws
/// Error{invalid}, with a list, for other names.
std::optional<std::size_t> monitored(std::string_view name, std::span<const Metric> metrics);

}  // namespace tutti::engine
