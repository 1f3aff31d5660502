#include "engine/models/parallel/gpt.hpp"

#include <ATen/Functions.h>

#include <utility>

#include "nn/parallel/attention.hpp"
#include "nn/parallel/module.hpp"
#include "nn/parallel/placement.hpp"
#include "nn/parallel/ring_attention.hpp"
#include "tutti/status.hpp"

namespace tutti::engine {
namespace {

using Sizes = std::vector<std::int64_t>;

/// A weight and a bias, split along one dimension or whole. Their values are copied from the sequential network.
class Part final : public nn::ParallelModule {
 public:
  Part(const char* name, const Sizes& sizes, const Sizes& bias_sizes, std::int64_t dim, std::int64_t bias_dim,
       const Cut& cut, const nn::Group& group)
      : nn::ParallelModule(name) {
    weight = add("weight", at::empty(sizes), dim, cut, group);
    bias = bias_dim < 0 ? add("bias", at::empty(bias_sizes), group)
                        : add("bias", at::empty(bias_sizes), bias_dim, cut, group);
  }
  at::Tensor weight, bias;
};

/// Weight and bias of a LayerNorm, which are replicas.
class Norm final : public torch::nn::Module {
 public:
  explicit Norm(std::int64_t width)
      : weight(register_parameter("weight", at::ones({width}))), bias(register_parameter("bias", at::zeros({width}))) {}
  at::Tensor weight, bias;
};

/// One embedding table.
class Table final : public torch::nn::Module {
 public:
  Table(std::int64_t rows, std::int64_t width) : weight(register_parameter("weight", at::empty({rows, width}))) {}
  at::Tensor weight;
};

/// Calls causal_attention() for some of the heads.
at::Tensor attend(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, double dropout,
                  Interval heads, std::int64_t all_heads) {
  if (dropout == 0 || heads.size() == all_heads) return models::causal_attention(query, key, value, dropout);
  const at::Tensor weights = nn::attention_scores(query, key, true).softmax(3);
  return drop_part(weights, dropout, 1, all_heads, heads).matmul(value);
}

}  // namespace

class ParallelGpt::Block final : public torch::nn::Module {
 public:
  Block(const std::string& name, std::int64_t width, std::int64_t heads, double dropout, const Layout& layout,
        Split split)
      : layout_(layout),
        tensor_(split == Split::replicate ? layout.one.group() : layout.tensor),
        heads_(heads),
        each_(width / heads),
        dropout_(dropout) {
    const auto check = [&](std::int64_t count, int ranks, const std::string& axis) {
      if (count < ranks)
        throw Error(Code::unsupported, name + " (" + std::to_string(heads) + " heads, width " + std::to_string(width) +
                                           ") cannot be split over mesh " + layout.mesh + ": " + axis + " has " +
                                           std::to_string(ranks) + " ranks for " + std::to_string(count) + " heads");
    };
    check(heads, tensor_->size(), "tensor");
    const Cut units = Cut::even(width, tensor_->size(), each_), hidden = Cut::even(4 * width, tensor_->size());
    mine_ = {units[tensor_->rank()].begin / each_, units[tensor_->rank()].end / each_};
    by_ring_ = heads / tensor_->size() < layout.sequence->size();
    if (by_ring_ && dropout > 0)
      throw Error(Code::unsupported, name + " (" + std::to_string(heads) + " heads, width " + std::to_string(width) +
                                         ") cannot be split over mesh " + layout.mesh +
                                         ": with fewer heads than ranks along sequence, say model.dropout=0");
    const auto part = [&](const char* of, const Sizes& sizes, const Sizes& bias, std::int64_t dim,
                          std::int64_t bias_dim, const Cut& cut) {
      return register_module(of, std::make_shared<Part>(of, sizes, bias, dim, bias_dim, cut, tensor_));
    };
    norm1_ = register_module("norm1", std::make_shared<Norm>(width));
    query_key_value_ = part("query_key_value", {3, width, width}, {3, width}, 1, 1, units);
    projection_ = part("projection", {width, width}, {width}, 1, -1, units);
    norm2_ = register_module("norm2", std::make_shared<Norm>(width));
    fc1_ = part("fc1", {4 * width, width}, {4 * width}, 0, 0, hidden);
    fc2_ = part("fc2", {width, 4 * width}, {width}, 1, -1, hidden);
  }

  at::Tensor forward(const at::Tensor& input, const Cut& positions) {
    const at::Tensor x = input + drop(projected(attended(normed(input, *norm1_), positions), *projection_), positions);
    const at::Tensor low = nn::copy_to(normed(x, *norm2_), tensor_);
    const at::Tensor hidden = at::gelu(at::linear(low, use(fc1_->weight), use(fc1_->bias)));
    return x + drop(projected(hidden, *fc2_), positions);
  }

  const nn::Group& tensor() const noexcept { return tensor_; }
  bool by_ring() const noexcept { return by_ring_; }

 private:
  /// A parameter as used by this rank's positions; its gradient is summed over the ranks of the sequence.
  at::Tensor use(const at::Tensor& parameter) const { return nn::copy_to(parameter, layout_.sequence); }

  at::Tensor normed(const at::Tensor& x, const Norm& norm) const {
    return at::layer_norm(x, {x.size(-1)}, use(norm.weight), use(norm.bias));
  }
  at::Tensor projected(const at::Tensor& part, const Part& by) const {
    return nn::reduce_from(at::linear(part, use(by.weight)), tensor_) + use(by.bias);
  }
  at::Tensor drop(const at::Tensor& x, const Cut& positions) const {
    if (dropout_ == 0 || !is_training()) return x;
    return drop_part(x, dropout_, 1, positions.extent(), positions[layout_.sequence->rank()]);
  }

  at::Tensor attended(const at::Tensor& normal, const Cut& positions) const {  // (samples, positions here, width)
    const std::int64_t samples = normal.size(0), here = normal.size(1), mine = mine_.size();
    const at::Tensor x = nn::copy_to(normal, tensor_);
    const at::Tensor all =
        at::linear(x, use(query_key_value_->weight).flatten(0, 1), use(query_key_value_->bias).flatten());
    const at::Tensor heads = all.view({samples, here, 3, mine, each_}).permute({2, 0, 3, 1, 4});
    const nn::Group& sequence = layout_.sequence;
    if (by_ring_)
      return nn::attend_ring(heads[0], heads[1], heads[2], true, positions, sequence)
          .transpose(1, 2)
          .reshape({samples, here, mine * each_});
    const Cut cut = Cut::even(mine, sequence->size());
    const Interval part = cut[sequence->rank()];
    const auto of = [&](std::int64_t which) {  // (samples, heads, positions, channels): all positions of some heads
      return nn::exchange_dims(heads[which], 2, positions, 1, cut, sequence);
    };
    const at::Tensor seen = attend(of(0), of(1), of(2), is_training() ? dropout_ : 0,
                                   {mine_.begin + part.begin, mine_.begin + part.end}, heads_);
    return nn::exchange_dims(seen, 1, cut, 2, positions, sequence)
        .transpose(1, 2)
        .reshape({samples, here, mine * each_});
  }

  const Layout layout_;
  const nn::Group tensor_;
  const std::int64_t heads_, each_;
  const double dropout_;
  Interval mine_;         // this rank's heads
  bool by_ring_ = false;  // ring attention; otherwise, each rank gathers all positions of some heads
  std::shared_ptr<Norm> norm1_, norm2_;
  std::shared_ptr<Part> query_key_value_, projection_, fc1_, fc2_;
};

ParallelGpt::~ParallelGpt() = default;

ParallelGpt::ParallelGpt(const models::Request& request, Layout layout, const SplitChoices& choices)
    : layout_(std::move(layout)),
      context_(request.input[0]),
      tied_(request.options.flag("tie")),
      dropout_(request.options.number("dropout")) {
  const std::int64_t width = request.options.whole("embedding"), heads = request.options.whole("heads");
  const auto table = [&](const char* name, std::int64_t rows) {
    return register_module(name, std::make_shared<Table>(rows, width))->weight;
  };
  if (layout_.space.group()->size() > 1)
    throw Error(Code::unsupported, "model=gpt (width " + std::to_string(width) + ") cannot be split over mesh " +
                                       layout_.mesh + ": texts have no height and width: take tensor or sequence");
  if (context_ < layout_.sequence->size())
    throw Error(Code::unsupported, "model=gpt cannot be split over mesh " + layout_.mesh + ": a context of " +
                                       std::to_string(context_) + " positions is too short for it");
  tokens_ = table("token_embedding", request.classes);
  positions_ = table("position_embedding", context_);
  std::size_t used = 0;
  for (std::int64_t i = 1; i <= request.options.whole("layers"); ++i) {
    const std::string name = "block" + std::to_string(i);
    const auto chosen = choices.layers.find(name);
    const Split split = chosen == choices.layers.end() ? Split::automatic : chosen->second;
    used += chosen != choices.layers.end();
    if (split == Split::space || split == Split::row)
      throw Error(Code::unsupported, name + " (width " + std::to_string(width) + ") cannot be split over mesh " +
                                         layout_.mesh + ": " + std::string(name_of(split)) +
                                         " is for single layers: say column or replicate");
    blocks_.push_back(register_module(name, std::make_shared<Block>(name, width, heads, dropout_, layout_, split)));
  }
  if (used != choices.layers.size())
    refuse("parallel.layers: model=gpt has blocks alone, block1 to block" + std::to_string(blocks_.size()) +
           ", that can be split");
  const auto norm = register_module("norm", std::make_shared<Norm>(width));
  norm_weight_ = norm->weight, norm_bias_ = norm->bias;
  if (!tied_) head_ = table("head", request.classes);
  add_costs(width, request.classes, heads);
}

at::Tensor ParallelGpt::forward(const at::Tensor& tokens) {
  const std::int64_t length = tokens.size(1);
  if (length > context_)
    refuse("gpt: " + std::to_string(length) + " tokens, and the context is " + std::to_string(context_) +
           ": give shorter samples or make it longer");
  const nn::Group& sequence = layout_.sequence;
  const Cut positions = Cut::even(length, sequence->size());
  const Interval mine = positions[sequence->rank()];
  const auto use = [&](const at::Tensor& parameter) { return nn::copy_to(parameter, sequence); };
  const at::Tensor table = use(tokens_);
  at::Tensor x = at::embedding(table, tokens.narrow(1, mine.begin, mine.size())) +
                 use(positions_).narrow(0, mine.begin, mine.size());
  if (dropout_ > 0 && is_training()) x = drop_part(x, dropout_, 1, positions.extent(), mine);
  for (const auto& block : blocks_) x = block->forward(x, positions);
  x = at::layer_norm(x, {x.size(-1)}, use(norm_weight_), use(norm_bias_));
  return nn::gather_from(at::linear(x, tied_ ? table : use(head_)), 1, positions, sequence);
}

/// Sets the costs for a full context. Every weight's gradient is summed over the ranks of the sequence.
void ParallelGpt::add_costs(std::int64_t width, std::int64_t classes, std::int64_t heads) {
  const nn::Group& sequence = layout_.sequence;
  const std::int64_t here = Cut::even(context_, sequence->size())[sequence->rank()].size();
  const bool cut = sequence->size() > 1;
  const auto entry = [&](const std::string& name, std::int64_t weights) -> LayerCost& {
    costs_.push_back({.layer = name, .weights = weights});
    if (cut) costs_.back().split = "sequence", costs_.back().backward_once = weights;
    return costs_.back();
  };
  entry("embedding", tokens_.numel() + positions_.numel()).outputs = here * width;
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    const nn::Group& tensor = blocks_[i]->tensor();
    LayerCost& cost = entry("block" + std::to_string(i + 1), weights_of(*blocks_[i]));
    const Cut units = Cut::even(width, tensor->size(), width / heads);
    const std::int64_t mine = units[tensor->rank()].size(),
                       hidden = Cut::even(4 * width, tensor->size())[tensor->rank()].size();
    if (tensor->size() > 1) {
      cost.split = cut ? "column, sequence" : "column";
      cost.forward = cost.backward = 2 * here * width;
    }
    if (cut && !blocks_[i]->by_ring()) {  // nn::Traffic also counts a rank's blocks for itself
      const std::int64_t heads_here = Cut::even(mine * heads / width, sequence->size())[sequence->rank()].size();
      const std::int64_t all_positions = context_ * heads_here * width / heads;
      cost.forward += 3 * here * mine + all_positions, cost.backward += here * mine + 3 * all_positions;
    } else if (cut) {  // ring attention passes on all keys and values but the next rank's; in backward all gradients
      const Cut positions = Cut::even(context_, sequence->size());
      const std::int64_t others = context_ - positions[(sequence->rank() + 1) % sequence->size()].size();
      cost.forward += 2 * others * mine, cost.backward += 2 * (others + context_) * mine;
    }
    // Outputs: two norms and two sums; queries, keys, values and output of the attention; input and output of the gelu.
    cost.outputs = 4 * here * width + 4 * here * mine + 2 * here * hidden;
  }
  LayerCost& last = entry("head", norm_weight_.numel() + norm_bias_.numel() + (tied_ ? 0 : head_.numel()));
  last.outputs = here * width + context_ * classes;
  if (cut) last.forward = here * classes;
}

}  // namespace tutti::engine
