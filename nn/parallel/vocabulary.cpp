#include "nn/parallel/vocabulary.hpp"

#include <ATen/Functions.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cmath>

#include "nn/parallel/placement.hpp"

namespace tutti::nn {
namespace {

Cut checked_cut(std::int64_t vocabulary, const Group& group) {
  if (vocabulary < group->size())
    throw Error(Code::invalid, "VocabParallelEmbedding: a vocabulary of " + std::to_string(vocabulary) +
                                   " cannot be cut among " + std::to_string(group->size()) + " ranks (" +
                                   group->name() + ")");
  return Cut::even(vocabulary, group->size());
}

class CrossEntropy : public torch::autograd::Function<CrossEntropy> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& logits,
                            const at::Tensor& targets, const Cut& cut, const Group& group, std::int64_t ignore_index) {
    const Interval mine = cut[group->rank()];
    const at::Tensor counts = targets.ne(ignore_index);
    const at::Tensor is_here = counts.logical_and(targets.ge(mine.begin)).logical_and(targets.lt(mine.end));
    const at::Tensor place = (targets - mine.begin).masked_fill(is_here.logical_not(), 0).unsqueeze(1);
    const at::Tensor highest =
        group->allreduce(mine.empty() ? at::full({logits.size(0)}, -INFINITY, logits.options()) : logits.amax(1), max);
    const at::Tensor powers = (logits - highest.unsqueeze(1)).exp();
    const at::Tensor chosen = mine.empty() ? at::zeros_like(highest) : logits.gather(1, place).squeeze(1) - highest;
    const at::Tensor sums = group->allreduce(at::stack({powers.sum(1), chosen.masked_fill(is_here.logical_not(), 0)}));
    const at::Tensor losses = (sums[0].log() - sums[1]).masked_fill(counts.logical_not(), 0);
    const at::Tensor total = counts.sum().to(logits.scalar_type());
    // The gradient per sample: softmax, minus 1 at the target.
    at::Tensor gradient = powers / sums[0].unsqueeze(1);
    if (!mine.empty()) gradient.scatter_add_(1, place, is_here.to(logits.scalar_type()).neg().unsqueeze(1));
    gradient.mul_((counts.to(logits.scalar_type()) / total).unsqueeze(1));
    context->save_for_backward({gradient});
    return losses.sum() / total;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    return {context->get_saved_variables()[0] * gradients[0], {}, {}, {}, {}};
  }
};

}  // namespace

VocabParallelEmbeddingImpl::VocabParallelEmbeddingImpl(std::int64_t vocabulary, std::int64_t width, Group group,
                                                       std::optional<std::uint64_t> seed)
    : ParallelModule("VocabParallelEmbedding"), group_(std::move(group)), cut_(checked_cut(vocabulary, group_)) {
  weight = add("weight", Draw(seed, group_).normal({vocabulary, width}), 0, cut_, group_);
}

at::Tensor VocabParallelEmbeddingImpl::forward(const at::Tensor& tokens) {
  const Interval mine = cut_[group_->rank()];
  const at::Tensor elsewhere = tokens.lt(mine.begin).logical_or(tokens.ge(mine.end));
  const at::Tensor rows = at::embedding(weight, (tokens - mine.begin).masked_fill(elsewhere, 0));
  return reduce_from(rows.masked_fill(elsewhere.unsqueeze(-1), 0), group_);
}

at::Tensor vocab_parallel_cross_entropy(const at::Tensor& logits, const at::Tensor& targets, const Cut& cut,
                                        const Group& group, std::int64_t ignore_index) {
  if (logits.dim() != 2 || logits.size(1) != cut[group->rank()].size() || targets.dim() != 1 ||
      targets.size(0) != logits.size(0))
    throw Error(Code::invalid, "vocab_parallel_cross_entropy takes logits (samples, " +
                                   std::to_string(cut[group->rank()].size()) + ") and targets (samples), not " +
                                   c10::str(logits.sizes()) + " and " + c10::str(targets.sizes()));
  return CrossEntropy::apply(logits, targets, cut, group, ignore_index);
}

}  // namespace tutti::nn
