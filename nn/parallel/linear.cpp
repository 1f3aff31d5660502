#include "nn/parallel/linear.hpp"

#include <ATen/Functions.h>

#include <utility>

namespace tutti::nn {
namespace {

Cut checked_cut(std::int64_t width, const char* side, const Group& group, const ParallelLinearOptions& options) {
  if (options.unit < 1 || width % options.unit != 0 || width / options.unit < group->size())
    throw Error(Code::invalid, "'" + options.name + "': " + std::to_string(width) + " " + side +
                                   " cannot be cut among " + std::to_string(group->size()) + " ranks (" +
                                   group->name() + ")" +
                                   (options.unit == 1 ? "" : " in multiples of " + std::to_string(options.unit)) +
                                   ": make the layer wider, or that axis of the mesh shorter");
  return Cut::even(width, group->size(), options.unit);
}

Cut sequence_cut(const at::Tensor& input, std::int64_t sequence, const Group& group,
                 const ParallelLinearOptions& options, bool in_parts) {
  const std::int64_t here = input.size(options.sequence_dim);
  if (sequence == 0) sequence = in_parts ? here * group->size() : here;
  const Cut cut = Cut::even(sequence, group->size());
  if (here != (in_parts ? cut[group->rank()].size() : sequence))
    throw Error(Code::invalid, "'" + options.name + "': " + std::to_string(here) + " positions on rank " +
                                   std::to_string(group->rank()) + " of a sequence of " + std::to_string(sequence) +
                                   " (" + group->name() + "): give forward() the whole length, and cut it evenly");
  return cut;
}

}  // namespace

ColumnParallelLinearImpl::ColumnParallelLinearImpl(std::int64_t in, std::int64_t out, Group group,
                                                   ParallelLinearOptions options)
    : ParallelModule("ColumnParallelLinear"),
      group_(std::move(group)),
      options_(std::move(options)),
      cut_(checked_cut(out, "outputs", group_, options_)) {
  Draw draw(options_.seed, group_);
  weight = add("weight", draw.uniform({out, in}, in), 0, cut_, group_);
  bias = add("bias", options_.bias ? draw.uniform({out}, in) : at::Tensor(), 0, cut_, group_);
}

at::Tensor ColumnParallelLinearImpl::local(const at::Tensor& input) const { return at::linear(input, weight, bias); }

at::Tensor ColumnParallelLinearImpl::forward(const at::Tensor& input, std::int64_t sequence) {
  const at::Tensor whole =
      options_.sequence_parallel
          ? gather_sequence(input, options_.sequence_dim, sequence_cut(input, sequence, group_, options_, true), group_)
          : copy_to(input, group_);
  const at::Tensor output = local(whole);
  return options_.gather_output ? gather_from(output, -1, cut_, group_) : output;
}

RowParallelLinearImpl::RowParallelLinearImpl(std::int64_t in, std::int64_t out, Group group,
                                             ParallelLinearOptions options)
    : ParallelModule("RowParallelLinear"),
      group_(std::move(group)),
      options_(std::move(options)),
      cut_(checked_cut(in, "inputs", group_, options_)) {
  Draw draw(options_.seed, group_);
  weight = add("weight", draw.uniform({out, in}, in), 1, cut_, group_);
  bias = add("bias", options_.bias ? draw.uniform({out}, in) : at::Tensor(), group_);
}

at::Tensor RowParallelLinearImpl::forward(const at::Tensor& input, std::int64_t sequence) {
  const std::int64_t width = input.size(-1), mine = cut_[group_->rank()].size();
  const bool in_parts = options_.input_is_parallel.value_or(width != cut_.extent());
  if (width != (in_parts ? mine : cut_.extent()))
    throw Error(Code::invalid, "'" + options_.name + "' takes inputs of width " + std::to_string(mine) +
                                   " in parts or " + std::to_string(cut_.extent()) + " whole, not " +
                                   std::to_string(width));
  const at::Tensor part = in_parts ? input : scatter_to(input, -1, cut_, group_);
  const at::Tensor term = at::linear(part, weight);
  if (!options_.sequence_parallel) {
    const at::Tensor output = reduce_from(term, group_);
    return bias.defined() ? output + bias : output;
  }
  const Cut cut = sequence_cut(term, sequence, group_, options_, false);
  const at::Tensor output = scatter_sequence(term, options_.sequence_dim, cut, group_);
  // copy_to(): each rank's positions contribute to the bias gradient
  return bias.defined() ? output + copy_to(bias, group_) : output;
}

RowParallelLinear MPInitialLinear(std::int64_t in, std::int64_t out, Group group, ParallelLinearOptions options) {
  options.input_is_parallel = false;
  return RowParallelLinear(in, out, std::move(group), std::move(options));
}
RowParallelLinear MPBaseLinear(std::int64_t in, std::int64_t out, Group group, ParallelLinearOptions options) {
  return RowParallelLinear(in, out, std::move(group), std::move(options));
}
at::Tensor MPTanh(const at::Tensor& input) { return input.tanh(); }
at::Tensor MPInitialReshape(const at::Tensor& input, at::IntArrayRef sizes) {
  std::vector<std::int64_t> all{input.size(0)};
  all.insert(all.end(), sizes.begin(), sizes.end());
  return input.reshape(all);
}
at::Tensor MPBaseReshape(const at::Tensor& input, at::IntArrayRef sizes) { return MPInitialReshape(input, sizes); }

RowParallelLinear LayerDist(std::int64_t in, std::int64_t out, Group group, ParallelLinearOptions options) {
  return RowParallelLinear(in, out, std::move(group), std::move(options));
}
RowParallelLinear LayerWithNoBiasDist(std::int64_t in, std::int64_t out, Group group, ParallelLinearOptions options) {
  options.bias = false;
  return RowParallelLinear(in, out, std::move(group), std::move(options));
}

}  // namespace tutti::nn
