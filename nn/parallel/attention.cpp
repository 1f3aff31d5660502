#include "nn/parallel/attention.hpp"

#include <ATen/Functions.h>

#include <cmath>
#include <utility>

namespace tutti::nn {
namespace {

ParallelLinearOptions linear_options(const ParallelAttentionOptions& options, const char* part, std::int64_t unit,
                                     std::uint64_t number) {
  ParallelLinearOptions made;
  made.bias = options.bias;
  if (options.seed) made.seed = *options.seed + number;
  made.name = options.name + "." + part;
  made.unit = unit;
  return made;
}

std::int64_t checked_head(std::int64_t width, std::int64_t heads, const Group& group, const std::string& name) {
  if (heads < group->size() || width % heads != 0)
    throw Error(Code::invalid, "'" + name + "': " + std::to_string(heads) + " heads of a width of " +
                                   std::to_string(width) + " cannot be cut among " + std::to_string(group->size()) +
                                   " ranks (" + group->name() + "): every rank needs one, and heads divide the width");
  return width / heads;
}

}  // namespace

at::Tensor attention_scores(const at::Tensor& query, const at::Tensor& key, bool causal) {
  const at::Tensor scores = at::matmul(query, key.transpose(-2, -1)) / std::sqrt(static_cast<double>(query.size(-1)));
  if (!causal) return scores;
  const at::Tensor later = at::ones({query.size(-2), key.size(-2)}, query.options().dtype(at::kBool)).triu(1);
  return scores.masked_fill(later, -INFINITY);
}

at::Tensor attend(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, bool causal) {
  return at::matmul(attention_scores(query, key, causal).softmax(-1), value);
}

at::Tensor attend_ulysses(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, bool causal,
                          const Cut& positions, const Group& group) {
  const Cut heads = Cut::even(query.size(1), group->size());
  const auto all_positions = [&](const at::Tensor& part) { return exchange_dims(part, 2, positions, 1, heads, group); };
  const at::Tensor mixed = attend(all_positions(query), all_positions(key), all_positions(value), causal);
  return exchange_dims(mixed, 1, heads, 2, positions, group);
}

ParallelAttentionImpl::ParallelAttentionImpl(std::int64_t width, std::int64_t heads, Group group,
                                             ParallelAttentionOptions options)
    : ParallelModule("ParallelAttention"),
      head_width_(checked_head(width, heads, group, options.name)),
      group_(std::move(group)),
      options_(std::move(options)) {
  const auto column = [&](const char* part, std::uint64_t number) {
    return register_module(
        part, ColumnParallelLinear(width, width, group_, linear_options(options_, part, head_width_, number)));
  };
  query = column("query", 0);
  key = column("key", 1);
  value = column("value", 2);
  output = register_module("output",
                           RowParallelLinear(width, width, group_, linear_options(options_, "output", head_width_, 3)));
}

at::Tensor ParallelAttentionImpl::forward(const at::Tensor& input) {
  const at::Tensor shared = copy_to(input, group_);  // one allreduce in backward for query, key and value
  const auto heads = [&](const ColumnParallelLinear& layer) {
    return layer->local(shared).unflatten(-1, {-1, head_width_}).transpose(1, 2);
  };
  const at::Tensor mixed = attend(heads(query), heads(key), heads(value), options_.causal);
  return output->forward(mixed.transpose(1, 2).flatten(2));
}

}  // namespace tutti::nn
