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

/// A metric: the mean over the samples of a batch, which a run combines weighted by their numbers of samples; or, if
/// `mean` is empty, what `of_all` makes of all held-out samples at once.
struct Metric {
  std::string name;
  std::function<double(const at::Tensor& output, const at::Tensor& target)> mean = {};
  bool larger_is_better = true;
  /// For networks with one output: called on every rank with the outputs and the targets of all held-out samples.
  std::function<double(std::span<const double> outputs, std::span<const double> targets)> of_all = {};
};

struct LossInfo {
  /// What a network's output has to be.
  enum class Output : std::uint8_t {
    scores,             ///< one of any size for each class
    log_probabilities,  ///< one for each class
    numbers,            ///< as many as the target has
    binary_scores,      ///< one of any size for two classes, or as many as the target has numbers from 0 to 1
    probabilities,      ///< the same from 0 to 1
  };
  std::string_view name, meaning;
  std::string_view aliases;  ///< the names of Keras and mpi_learn, separated by blanks
  Output output = Output::scores;

  /// Whether the target is a class (an integer) or numbers, where it is not either.
  bool wants_classes() const noexcept { return output == Output::scores || output == Output::log_probabilities; }
  bool is_binary() const noexcept { return output == Output::binary_scores || output == Output::probabilities; }
};
std::span<const LossInfo> loss_table() noexcept;

/// The loss with this name or alias. Throws Error{invalid} with a list of the names.
const LossInfo& loss_info(std::string_view name);
/// `smoothing`: the part of a target's probability that goes to all classes alike (Szegedy et al. 2016); for
/// cross_entropy only.
Loss make_loss(std::string_view name, double smoothing = 0);

/// What is learned, as far as loss and metrics depend on it.
struct Targets {
  std::size_t classes = 0;  ///< 0: the target is numbers
  std::size_t numbers = 1;  ///< of each sample's target
};

/// The number of outputs that a network needs for these targets: one per class, one for two classes with a binary loss,
/// or one per number.
std::size_t outputs_for(const LossInfo& loss, const Targets& targets);

/// Throws Error{invalid} if the loss is not of such targets, with one that is. `given` is the loss in the user's words.
void check_targets(std::string_view given, const Targets& targets);

/// Throws Error{invalid} if a network's output for some samples, (samples, ...), does not go with loss and targets,
/// with what would. `model` is its name, and `gives_scores` says that it is one of the table, none of which ends in
/// probabilities.
void check_output(std::string_view given, const Targets& targets, const at::Tensor& output, std::string_view model,
                  bool gives_scores);

/// Throws Error{invalid} if the loss is of numbers from 0 to 1 and the targets of some samples are others.
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
/// than one of class 0, where equal ones count half (Mann and Whitney 1947). Targets above 0.5 are of class 1. NaN if
/// all samples are of one class.
double area_under_curve(std::span<const double> outputs, std::span<const double> targets);

/// The place in `metrics` of the one that a user names, in any of the usual spellings: "top-5 accuracy",
/// "top_5_accuracy", "val_accuracy"; nothing for the loss ("loss", "val_loss", "held_out_loss"). Throws Error{invalid}
/// for other names, with a list.
std::optional<std::size_t> monitored(std::string_view name, std::span<const Metric> metrics);

}  // namespace tutti::engine
