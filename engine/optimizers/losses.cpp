// The computation of the losses and metrics in the table.
#include "engine/optimizers/losses.hpp"

#include <ATen/ops/argmax.h>
#include <torch/nn/functional/loss.h>

namespace tutti::engine {
namespace {

namespace functional = torch::nn::functional;

/// Scores as rows, one per target, with the class last: flattens (samples, positions, classes).
at::Tensor rows(const at::Tensor& scores) { return scores.dim() > 2 ? scores.flatten(0, -2) : scores; }

at::Tensor cross_entropy(const at::Tensor& output, const at::Tensor& target) {
  return functional::cross_entropy(rows(output), target.flatten());
}

at::Tensor nll(const at::Tensor& output, const at::Tensor& target) {
  return functional::nll_loss(rows(output), target.flatten());
}

/// The target in the dtype and shape of the output. Targets may have any numeric type, or be classes if the loss has
/// one output.
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
/// In the order of loss_table().
constexpr Function functions[] = {cross_entropy, nll, mse, l1, smooth_l1, bce, bce_logits};
double accuracy(const at::Tensor& output, const at::Tensor& target) {
  return rows(output).argmax(1).eq(target.flatten()).to(at::kDouble).mean().item<double>();
}

double top5(const at::Tensor& output, const at::Tensor& target) {
  const at::Tensor best = std::get<1>(rows(output).topk(5, 1));
  return best.eq(target.flatten().unsqueeze(1)).any(1).to(at::kDouble).mean().item<double>();
}

double absolute_error(const at::Tensor& output, const at::Tensor& target) { return l1(output, target).item<double>(); }

}  // namespace

Loss make_loss(std::string_view name) { return functions[&loss_info(name) - loss_table().data()]; }

std::vector<Metric> metrics_of(std::size_t classes) {
  if (classes == 0) return {{"absolute error", absolute_error, false}};
  std::vector<Metric> metrics{{"accuracy", accuracy}};
  if (classes >= 10) metrics.push_back({"top-5 accuracy", top5});
  return metrics;
}

}  // namespace tutti::engine
