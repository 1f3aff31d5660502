#include "nn/parallel/ring_attention.hpp"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/ivalue.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cmath>
#include <tuple>
#include <utility>
#include <vector>

#include "nn/parallel/attention.hpp"

namespace tutti::nn {
namespace {

struct Circle : torch::CustomClassHolder {
  Group group;
  Cut positions = Cut::even(0, 1);
  bool causal = false;
};

/// Passes two tensors around the ring. After each pass a rank holds the tensors of the previous rank.
class Passing {
 public:
  Passing(const Circle& circle, const at::Tensor& like) : circle_(circle), like_(like) {}

  /// Starts to send the two tensors to the next rank and to receive those of the previous rank. The tensors to send
  /// belong to the positions of rank `owner`.
  void start(const at::Tensor& one, const at::Tensor& other, int owner) {
    const int size = circle_.group->size(), rank = circle_.group->rank();
    coming_ = (owner + size - 1) % size;
    sent_ = at::cat({one.reshape({-1}), other.reshape({-1})});
    const Box there{{0, sent_.numel()}}, here{{0, 2 * each(coming_)}};
    plan_ = {.have = there,
             .want = here,
             .gives = {{(rank + 1) % size, there}},
             .takes = {{(rank + size - 1) % size, here}},
             .kept = {{0, 0}}};
    pending_ = circle_.group->start(plan_, sent_);
  }
  std::pair<at::Tensor, at::Tensor> finish() {
    const at::Tensor received = circle_.group->finish(plan_, sent_, pending_);
    std::vector<std::int64_t> sizes = like_.sizes().vec();
    sizes[2] = circle_.positions[coming_].size();
    return {received.narrow(0, 0, each(coming_)).view(sizes),
            received.narrow(0, each(coming_), each(coming_)).view(sizes)};
  }

 private:
  std::int64_t each(int owner) const {
    return like_.size(0) * like_.size(1) * like_.size(3) * circle_.positions[owner].size();
  }

  const Circle& circle_;
  const at::Tensor& like_;
  at::Tensor sent_;
  BoxPlan plan_;
  ProcessGroup::Pending pending_;
  int coming_ = 0;
};

/// True if queries of rank `rank` attend to keys of rank `owner`.
bool sees(const Circle& circle, int rank, int owner) {
  return !circle.positions[owner].empty() && !circle.positions[rank].empty() && (!circle.causal || owner <= rank);
}

at::Tensor scores_of(const Circle& circle, const at::Tensor& query, const at::Tensor& key, int owner) {
  return attention_scores(query, key, circle.causal && owner == circle.group->rank());
}

class Ring : public torch::autograd::Function<Ring> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& query, const at::Tensor& key,
                            const at::Tensor& value, const c10::intrusive_ptr<Circle>& circle) {
    const int size = circle->group->size(), rank = circle->group->rank();
    Attended seen;
    at::Tensor keys = key, values = value;
    Passing passing(*circle, key);
    for (int step = 0; step < size; ++step) {
      const int owner = (rank + size - step) % size;
      if (step + 1 < size) passing.start(keys, values, owner);
      if (sees(*circle, rank, owner)) {
        const at::Tensor scores = scores_of(*circle, query, keys, owner);
        const at::Tensor weight = scores.logsumexp(3, true);
        const Attended part{at::matmul((scores - weight).exp(), values), weight};
        seen = seen.values.defined() ? merge(seen, part) : part;
      }
      if (step + 1 < size) std::tie(keys, values) = passing.finish();
    }
    if (!seen.values.defined()) seen = {at::zeros_like(query), query.narrow(3, 0, 1)};
    context->save_for_backward({query, key, value, seen.values, seen.log_weight});
    context->saved_data["circle"] = c10::IValue::make_capsule(circle);
    return seen.values;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const auto kept = context->saved_data["circle"].toCapsule();
    const auto& circle = static_cast<const Circle&>(*kept);
    const auto saved = context->get_saved_variables();
    const at::Tensor &query = saved[0], &out = saved[3], &weight = saved[4], given = gradients[0].contiguous();
    const int size = circle.group->size(), rank = circle.group->rank();
    const double scale = 1 / std::sqrt(static_cast<double>(query.size(3)));
    const at::Tensor shared = (given * out).sum(3, true);
    at::Tensor keys = saved[1], values = saved[2], d_query = at::zeros_like(query);
    at::Tensor d_keys = at::zeros_like(keys), d_values = at::zeros_like(values);
    Passing passing(circle, saved[1]), returning(circle, saved[1]);
    for (int step = 0; step < size; ++step) {
      const int owner = (rank + size - step) % size;
      if (step + 1 < size) passing.start(keys, values, owner);
      at::Tensor more_keys, more_values;
      if (sees(circle, rank, owner)) {
        const at::Tensor shares = (scores_of(circle, query, keys, owner) - weight).exp();
        const at::Tensor d_scores = shares * (at::matmul(given, values.transpose(2, 3)) - shared) * scale;
        d_query = d_query + at::matmul(d_scores, keys);
        more_keys = at::matmul(d_scores.transpose(2, 3), query);
        more_values = at::matmul(shares.transpose(2, 3), given);
      }
      if (step > 0) std::tie(d_keys, d_values) = returning.finish();
      if (more_keys.defined()) d_keys = d_keys + more_keys, d_values = d_values + more_values;
      if (size > 1) returning.start(d_keys, d_values, owner);
      if (step + 1 < size) std::tie(keys, values) = passing.finish();
    }
    if (size > 1) std::tie(d_keys, d_values) = returning.finish();
    return {d_query, d_keys, d_values, at::Tensor()};
  }
};

}  // namespace

Attended merge(const Attended& one, const Attended& other) {
  const at::Tensor apart = other.log_weight - one.log_weight;
  return {one.values + apart.sigmoid() * (other.values - one.values), at::logaddexp(one.log_weight, other.log_weight)};
}

at::Tensor attend_ring(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, bool causal,
                       const Cut& positions, const Group& group) {
  auto circle = c10::make_intrusive<Circle>();
  circle->group = group;
  circle->positions = positions;
  circle->causal = causal;
  return Ring::apply(query, key, value, circle);
}

}  // namespace tutti::nn
