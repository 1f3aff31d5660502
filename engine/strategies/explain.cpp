#include "engine/strategies/explain.hpp"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <charconv>
#include <map>

#include "engine/config/tables.hpp"
#include "engine/strategies/axes.hpp"
#include "engine/strategies/fragments.hpp"
#include "engine/strategies/makers.hpp"
#include "engine/strategies/outer_rules.hpp"
#include "nn/bucket.hpp"
#include "nn/tensor.hpp"

namespace tutti::engine {
namespace {

std::vector<nn::NamedTensor> trained(const std::vector<nn::NamedTensor>& parameters) {
  std::vector<nn::NamedTensor> found;
  for (const nn::NamedTensor& each : parameters)
    if (each.second.requires_grad()) found.push_back(each);
  return found;
}

/// Returns the tensors' shapes, grouped by element type.
std::vector<nn::BucketShape> by_type(const std::vector<nn::NamedTensor>& tensors) {
  std::map<DType, nn::BucketShape> sorted;
  for (const auto& [name, tensor] : tensors) {
    nn::BucketShape& shape = sorted[nn::dtype_of(tensor)];
    shape.width = static_cast<std::int64_t>(tensor.element_size());
    shape.shapes.push_back(tensor.sizes().vec());
  }
  std::vector<nn::BucketShape> all;
  for (auto& [type, shape] : sorted) all.push_back(std::move(shape));
  return all;
}

std::int64_t bytes_of(const std::vector<nn::BucketShape>& shapes, const nn::Compression* codec, int ranks) {
  std::int64_t bytes = 0;
  for (const nn::BucketShape& each : shapes) bytes += codec ? codec->bytes(each, ranks) : each.count() * each.width;
  return bytes;
}

/// Returns the bytes of one exchange of gradients, including one flag (an element) per parameter if there is no codec.
std::int64_t gradient_bytes(const Config& config, const Axes& axes, const std::vector<nn::NamedTensor>& parameters,
                            const nn::Compression* codec, int ranks) {
  std::vector<nn::ParameterSize> sizes;
  for (const auto& [name, tensor] : parameters)
    sizes.push_back({nn::dtype_of(tensor), static_cast<std::size_t>(tensor.numel())});
  const auto all = static_cast<std::size_t>(-1);
  const std::size_t first = axes.overlap ? static_cast<std::size_t>(config.sync.first_bucket_bytes) : all;
  const std::size_t cap = axes.overlap ? static_cast<std::size_t>(config.sync.bucket_bytes) : all;
  std::int64_t bytes = 0;
  for (const nn::BucketPlan& plan : nn::plan_buckets(sizes, nn::last_to_first(sizes.size()), first, cap)) {
    nn::BucketShape shape{{}, static_cast<std::int64_t>(size_of(plan.dtype))};
    for (const std::size_t each : plan.parameters) shape.shapes.push_back(parameters[each].second.sizes().vec());
    bytes += codec ? codec->bytes(shape, ranks)
                   : (shape.count() + static_cast<std::int64_t>(plan.parameters.size())) * shape.width;
  }
  return bytes;
}

std::int64_t total_bytes(const std::vector<nn::NamedTensor>& tensors) { return bytes_of(by_type(tensors), nullptr, 1); }

StrategyCost message_cost(const Axes& axes, std::int64_t own, int ranks) {
  StrategyCost cost;
  const bool gossip = axes.merge == Axes::Merge::gossip, deltas = axes.what == Axes::What::deltas;
  const std::int64_t others = gossip ? 1 : std::min<std::int64_t>(axes.group, ranks) - 1;
  cost.round_bytes = cost.peak_bytes = static_cast<std::uint64_t>(others * own * (deltas ? 2 : 1));
  cost.step_bytes =
      static_cast<double>(cost.round_bytes) * (gossip ? axes.probability : 1.0 / static_cast<double>(axes.every));
  cost.state_bytes = static_cast<std::uint64_t>(own * (deltas ? 5 : 3));  // sent, received, mine; phi, velocity
  return cost;
}

/// Returns the strategy's memory, except the outer optimizer's, in copies of the parameters.
std::int64_t kept_copies(const Axes& axes) {
  std::int64_t copies = 1 + (axes.codec.feedback > 0);  // the send buffer, and the codec's residual
  if (axes.sparta > 0) ++copies;
  if (axes.judged != Axes::Judged::exchange) ++copies;
  if (axes.what != Axes::What::deltas) return copies;
  return copies + 1 + (axes.apply == Axes::Apply::eager);
}

/// Returns the bytes of the outer optimizer's state, whose elements are at least float.
std::int64_t slot_bytes(const Axes& axes, const std::vector<nn::NamedTensor>& parameters) {
  if (axes.what != Axes::What::deltas) return 0;
  std::int64_t bytes = 0;
  for (const nn::BucketShape& each : by_type(parameters)) bytes += each.count() * std::max<std::int64_t>(each.width, 4);
  return static_cast<std::int64_t>(OuterRule{.rule = axes.outer}.slots()) * bytes;
}

StrategyCost delta_cost(const Config& config, const Axes& axes, const std::vector<nn::NamedTensor>& parameters,
                        const std::vector<nn::NamedTensor>& buffers, const nn::Compression* codec, int ranks) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : parameters) names.push_back(name);
  const auto fragments = static_cast<std::size_t>(axes.fragments);
  const std::vector<std::size_t> fragment_of = fragments_of(names, fragments);
  std::vector<nn::NamedTensor> averaged;
  for (const nn::NamedTensor& each : buffers)
    if (each.second.is_floating_point() && config.sync.buffers != "local") averaged.push_back(each);
  StrategyCost cost;
  for (std::size_t f = 0; f < fragments; ++f) {
    std::vector<nn::NamedTensor> own;
    for (std::size_t i = 0; i < names.size(); ++i)
      if (fragment_of[i] == f) own.push_back(parameters[i]);
    std::int64_t bytes = bytes_of(by_type(own), codec, ranks);
    if (axes.merge == Axes::Merge::tokens) bytes += 8;
    if (axes.merge == Axes::Merge::radial) bytes += 8 * (1 + static_cast<std::int64_t>(own.size()));
    if (f + 1 == fragments) bytes += total_bytes(averaged);
    cost.round_bytes += static_cast<std::uint64_t>(bytes);
    cost.peak_bytes = std::max(cost.peak_bytes, static_cast<std::uint64_t>(bytes));
  }
  std::uint64_t each_step = 0;  // bytes that every step sends in addition to the rounds
  if (axes.sparta > 0)
    for (const nn::BucketShape& each : by_type(parameters))
      each_step += static_cast<std::uint64_t>(nn::mask_size(each.count(), axes.sparta) * each.width);
  cost.round_bytes += each_step * static_cast<std::uint64_t>(axes.every);
  cost.peak_bytes += each_step;
  cost.step_bytes = axes.when == Axes::When::probability
                        ? static_cast<double>(cost.round_bytes) * axes.probability
                        : static_cast<double>(cost.round_bytes) / static_cast<double>(axes.every);
  cost.state_bytes =
      static_cast<std::uint64_t>(kept_copies(axes) * total_bytes(parameters) + slot_bytes(axes, parameters));
  return cost;
}

std::string number(double value) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, value, std::chars_format::general, 4).ptr};
}

}  // namespace

std::string bytes_text(double bytes) {
  if (bytes >= 1e9) return number(bytes / 1e9) + " GB";
  if (bytes >= 1e6) return number(bytes / 1e6) + " MB";
  return bytes >= 1e3 ? number(bytes / 1e3) + " kB" : number(bytes) + " B";
}

StrategyCost strategy_cost(const Config& config, const std::vector<nn::NamedTensor>& parameters,
                           const std::vector<nn::NamedTensor>& buffers, int ranks) {
  const Axes axes = axes_of(config);
  const std::vector<nn::NamedTensor> own = trained(parameters);
  const auto codec = exchange::compression_of(axes, 1);
  if (axes.how == Axes::How::server) {
    const auto whole = static_cast<std::uint64_t>(total_bytes(own));
    return {whole, whole, static_cast<double>(whole) / static_cast<double>(axes.every), 0};
  }
  if (axes.how == Axes::How::pairs) return message_cost(axes, total_bytes(own), ranks);
  if (axes.what != Axes::What::gradients) return delta_cost(config, axes, own, buffers, codec.get(), ranks);
  StrategyCost cost;
  cost.round_bytes = static_cast<std::uint64_t>(gradient_bytes(config, axes, own, codec.get(), ranks));
  cost.peak_bytes = cost.round_bytes;
  cost.step_bytes = static_cast<double>(cost.round_bytes);
  cost.state_bytes = axes.codec.feedback > 0 ? static_cast<std::uint64_t>(total_bytes(own)) : 0;
  return cost;
}

std::string explain_strategy(const Config& config, const std::vector<nn::NamedTensor>& parameters,
                             const std::vector<nn::NamedTensor>& buffers, int ranks) {
  const Axes axes = axes_of(config);
  const ChoiceInfo& preset = choose("strategy", strategy_table(), axes.preset);
  std::string text = "strategy    " + axes.preset + ": " + std::string(preset.meaning) + "\n";
  for (const auto& [axis, value] : axes.table()) {
    std::string line = "  " + axis;
    line.resize(std::max<std::size_t>(line.size() + 1, 12), ' ');
    text += line + value + "\n";
  }
  if (axes.how == Axes::How::server) {
    const StrategyCost cost = strategy_cost(config, parameters, buffers, ranks);
    return text + "bytes       each worker sends " + bytes_text(static_cast<double>(cost.round_bytes)) +
           " and gets as much every " + std::to_string(axes.every) +
           " steps; to look at the masters' parameters it gets as much\n";
  }
  const StrategyCost cost = strategy_cost(config, parameters, buffers, ranks);
  text += "bytes       each of " + std::to_string(ranks) + " ranks gives " +
          bytes_text(static_cast<double>(cost.round_bytes)) + " a round, at most " +
          bytes_text(static_cast<double>(cost.peak_bytes)) + " in one step, " + bytes_text(cost.step_bytes) +
          " a step in the mean\n";
  text += "memory      " + bytes_text(static_cast<double>(cost.state_bytes)) +
          " on each rank, beside parameters, gradients, buffers and the optimizer\n";
  return text;
}

}  // namespace tutti::engine
