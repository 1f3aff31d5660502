// The computation of the losses and metrics in the table.
#include "engine/optimizers/losses.hpp"

#include <ATen/ops/argmax.h>
#include <torch/nn/functional/loss.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>
#include <numeric>

#include "engine/config/options.hpp"

namespace tutti::engine {
namespace {

namespace functional = torch::nn::functional;

/// Returns scores as rows, one per target, with the class last: flattens (samples, positions, classes).
at::Tensor rows(const at::Tensor& scores) { return scores.dim() > 2 ? scores.flatten(0, -2) : scores; }

at::Tensor cross_entropy(const at::Tensor& output, const at::Tensor& target) {
  return functional::cross_entropy(rows(output), target.flatten());
}

at::Tensor nll(const at::Tensor& output, const at::Tensor& target) {
  return functional::nll_loss(rows(output), target.flatten());
}

/// Returns the target in the dtype and shape of the output. Targets may have any numeric type; they may be classes if
/// the loss has one output.
at::Tensor like(const at::Tensor& target, const at::Tensor& output) {
  return target.to(output.scalar_type()).reshape(output.sizes());
}

at::Tensor mse(const at::Tensor& output, const at::Tensor& target) {
  return functional::mse_loss(output, like(target, output));
}
at::Tensor l1(const at::Tensor& output, const at::Tensor& target) {
  return functional::l1_loss(output, like(target, output));
}
at::Tensor smooth_l1(const at::Tensor& output, const at::Tensor& target) {
  return functional::smooth_l1_loss(output, like(target, output));
}
at::Tensor bce(const at::Tensor& output, const at::Tensor& target) {
  return functional::binary_cross_entropy(output, like(target, output));
}
at::Tensor bce_logits(const at::Tensor& output, const at::Tensor& target) {
  return functional::binary_cross_entropy_with_logits(output, like(target, output));
}

using Function = at::Tensor (*)(const at::Tensor&, const at::Tensor&);
/// The functions of the losses, in the order of loss_table().
constexpr Function functions[] = {cross_entropy, nll, mse, l1, smooth_l1, bce, bce_logits};

double mean_of(const at::Tensor& is_right) { return is_right.to(at::kDouble).mean().item<double>(); }

double accuracy(const at::Tensor& output, const at::Tensor& target) {
  return mean_of(rows(output).argmax(1).eq(target.flatten()));
}

double top5(const at::Tensor& output, const at::Tensor& target) {
  const at::Tensor best = std::get<1>(rows(output).topk(5, 1));
  return mean_of(best.eq(target.flatten().unsqueeze(1)).any(1));
}

/// Returns the accuracy metric of a binary network: an output above `threshold` means class 1.
Metric binary_accuracy(double threshold) {
  return {"accuracy", [threshold](const at::Tensor& output, const at::Tensor& target) {
            return mean_of(output.flatten().gt(threshold).eq(target.flatten().gt(0.5)));
          }};
}

double absolute_error(const at::Tensor& output, const at::Tensor& target) { return l1(output, target).item<double>(); }

}  // namespace

Loss make_loss(std::string_view name, double smoothing) {
  const LossInfo& info = loss_info(name);
  if (!(smoothing >= 0 && smoothing < 1)) refuse("label_smoothing is a part: make it at least 0, and less than 1");
  if (smoothing == 0) return functions[&info - loss_table().data()];
  if (info.name != "cross_entropy") refuse("label_smoothing is for loss=cross_entropy: leave it out");
  return [options = functional::CrossEntropyFuncOptions().label_smoothing(smoothing)](const at::Tensor& output,
                                                                                      const at::Tensor& target) {
    return functional::cross_entropy(rows(output), target.flatten(), options);
  };
}

std::size_t outputs_for(const LossInfo& loss, const Targets& targets) {
  if (targets.classes == 0) return targets.numbers;
  return loss.is_binary() && targets.classes == 2 ? 1 : targets.classes;
}

void check_targets(std::string_view given, const Targets& targets) {
  const LossInfo& info = loss_info(given);
  const std::string loss = "loss=" + std::string(given);
  if (targets.classes == 0 && info.wants_classes())
    refuse(loss +
           " is for classes, but the target of the data is numbers: say loss=mse, or, if they are from 0 to 1, " +
           "loss=bce_logits");
  if (targets.classes > 0 && info.output == LossInfo::Output::numbers)
    refuse(loss + " is for numbers, but the target of the data is a class: say loss=cross_entropy");
  if (targets.classes > 2 && info.is_binary())
    refuse(loss + " is for two classes, but the data has " + std::to_string(targets.classes) +
           ": say loss=cross_entropy");
}

namespace {

std::string counted(std::size_t count) { return std::to_string(count) + (count == 1 ? " output" : " outputs"); }

/// Returns true if exp(output) are probabilities that add up to 1 for each sample.
bool are_log_probabilities(const at::Tensor& output) {
  return rows(output).to(at::kDouble).logsumexp(1).abs().max().item<double>() < 1e-3;
}

/// Returns true if outputs are probabilities that add up to 1 for each sample.
bool are_probabilities(const at::Tensor& output) {
  const at::Tensor all = rows(output).to(at::kDouble);
  return all.min().item<double>() >= 0 && (all.sum(1) - 1).abs().max().item<double>() < 1e-3;
}

}  // namespace

void check_output(std::string_view given, const Targets& targets, const at::Tensor& output, std::string_view model,
                  bool gives_scores) {
  using Output = LossInfo::Output;
  const LossInfo& info = loss_info(given);
  const std::string loss = "loss=" + std::string(given), name = "model=" + std::string(model);
  const auto samples = output.dim() > 0 ? std::max<std::int64_t>(output.size(0), 1) : 1;
  const auto count =
      static_cast<std::size_t>(info.wants_classes() && output.dim() > 1 ? output.size(-1) : output.numel() / samples);
  if (info.output == Output::log_probabilities && (gives_scores || !are_log_probabilities(output)))
    refuse(loss + " wants log-probabilities, but the outputs of " + name + " are scores: say loss=cross_entropy");
  if (info.output == Output::probabilities &&
      (gives_scores || output.min().item<double>() < 0 || output.max().item<double>() > 1))
    refuse(loss + " wants probabilities, but the outputs of " + name + " are scores: say loss=bce_logits");
  if (info.wants_classes() && count < targets.classes)
    refuse(loss + " wants one output for each of " + std::to_string(targets.classes) + " classes, but " + name +
           " has " + counted(count) + ": " +
           (targets.classes == 2 ? "say loss=bce_logits, or give it two" : "give it as many as there are classes"));
  if (!info.wants_classes() && count != outputs_for(info, targets))
    refuse(loss + " wants " + counted(outputs_for(info, targets)) +
           (targets.classes > 0 ? " for two classes" : ", as the target has") + ", but " + name + " has " +
           counted(count) + ": " +
           (targets.classes > 0 ? "say model.outputs=1, or loss=cross_entropy" : "give it as many"));
  if (info.output == Output::scores && !gives_scores && count > 1 && are_probabilities(output))
    refuse(loss + " wants scores, but " + name +
           " ends in probabilities already: leave its last softmax out, or end it in log-softmax and say loss=nll");
}

void check_numbers(std::string_view given, const at::Tensor& targets) {
  if (!loss_info(given).is_binary() || targets.numel() == 0) return;
  if (targets.min().item<double>() >= 0 && targets.max().item<double>() <= 1) return;
  refuse("loss=" + std::string(given) + " is for targets from 0 to 1, and the data has others: say loss=mse");
}

std::vector<Metric> metrics_of(const LossInfo& loss, const Targets& targets) {
  if (loss.is_binary()) {
    std::vector<Metric> metrics{binary_accuracy(loss.output == LossInfo::Output::probabilities ? 0.5 : 0)};
    if (outputs_for(loss, targets) == 1) metrics.push_back({.name = "AUC", .of_all = area_under_curve});
    return metrics;
  }
  if (targets.classes == 0) return {{"absolute error", absolute_error, false}};
  std::vector<Metric> metrics{{"accuracy", accuracy}};
  if (targets.classes >= 10) metrics.push_back({"top-5 accuracy", top5});
  return metrics;
}

double area_under_curve(std::span<const double> outputs, std::span<const double> targets) {
  constexpr double none = std::numeric_limits<double>::quiet_NaN();
  if (std::ranges::any_of(outputs, [](double each) { return std::isnan(each); })) return none;
  std::vector<std::size_t> order(outputs.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t i) { return outputs[i]; });
  // `pairs` is twice the number of pairs in which class 1 has the larger output; a pair with equal outputs adds 1.
  double pairs = 0, below = 0, ones = 0;
  for (std::size_t i = 0; i < order.size();) {
    double equal[2] = {};
    const double value = outputs[order[i]];
    for (; i < order.size() && outputs[order[i]] == value; ++i) ++equal[targets[order[i]] > 0.5 ? 1 : 0];
    pairs += equal[1] * (2 * below + equal[0]);
    below += equal[0];
    ones += equal[1];
  }
  return below > 0 && ones > 0 ? pairs / (2 * below * ones) : none;
}

namespace {

/// Reduces a metric's name to its letters and digits: "val_Top-5 accuracy" becomes "top5accuracy".
std::string plain(std::string_view name) {
  std::string found;
  for (const char each : name)
    if (std::isalnum(static_cast<unsigned char>(each)) != 0)
      found += static_cast<char>(std::tolower(static_cast<unsigned char>(each)));
  for (const std::string_view prefix : {"val", "heldout", "test"})
    if (found.starts_with(prefix) && found.size() > prefix.size()) return found.substr(prefix.size());
  return found;
}

}  // namespace

std::optional<std::size_t> monitored(std::string_view name, std::span<const Metric> metrics) {
  const std::string wanted = plain(name);
  if (wanted == "loss") return std::nullopt;
  std::string known = "loss";
  for (std::size_t i = 0; i < metrics.size(); ++i) {
    const std::string each = plain(metrics[i].name);
    if (each == wanted || (wanted == "acc" && each == "accuracy")) return i;
    known += ", " + metrics[i].name;
  }
  refuse("stop.monitor=" + std::string(name) + ": expected one of " + known);
}

}  // namespace tutti::engine
