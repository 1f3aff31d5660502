#include "nn/parallel/space_layers.hpp"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/utils.h>

#include <functional>
#include <limits>
#include <numeric>
#include <utility>

#include "nn/parallel/placement.hpp"

namespace tutti::nn {
namespace {

std::vector<Window> windows_of(const LocalFilterOptions& options, std::size_t dimensions) {
  const auto of = [&](const Sizes& given, std::size_t d) {
    if (given.size() != 1 && given.size() != dimensions)
      throw Error(Code::invalid, "'" + options.name + "': one number, or one for each of " +
                                     std::to_string(dimensions) + " dimensions");
    return given[given.size() == 1 ? 0 : d];
  };
  std::vector<Window> windows;
  for (std::size_t d = 0; d < dimensions; ++d)
    windows.push_back({.size = of(options.kernel, d),
                       .stride = of(options.stride, d),
                       .low = of(options.padding, d),
                       .high = of(options.padding, d)});
  return windows;
}

Tiling outputs_of(const Space& space, const Tiling& input, const std::vector<Window>& windows,
                  const std::string& layer) {
  return space.outputs(Tile{at::Tensor(), input}, windows, layer);
}

/// The input under each window: (samples, channels, outputs..., kernel...), a view.
at::Tensor unfolded(at::Tensor chunk, const std::vector<Window>& windows) {
  for (std::size_t d = 0; d < windows.size(); ++d)
    chunk = chunk.unfold(static_cast<std::int64_t>(d) + 2, windows[d].size, windows[d].stride);
  return chunk;
}

/// Moves the first two dimensions after the positions: (a, b, positions..., rest...) to (positions..., a, b, rest...).
at::Tensor positions_first(const at::Tensor& values, std::int64_t positions) {
  std::vector<std::int64_t> order;
  for (std::int64_t d = 0; d < positions; ++d) order.push_back(d + 2);
  order.push_back(0);
  order.push_back(1);
  for (std::int64_t d = positions + 2; d < values.dim(); ++d) order.push_back(d);
  return values.permute(order);
}

std::string extents_text(const Sizes& sizes) { return c10::str(at::IntArrayRef(sizes)); }

std::int64_t product(at::IntArrayRef sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{1}, std::multiplies<>());
}

}  // namespace

SpaceLocalFilterImpl::SpaceLocalFilterImpl(std::int64_t in, std::int64_t out, std::span<const std::int64_t> extents,
                                           Space space, LocalFilterOptions options)
    : ParallelModule("SpaceLocalFilter"),
      space_(std::move(space)),
      options_(std::move(options)),
      windows_(windows_of(options_, space_.dimensions())),
      input_(space_.even(extents)),
      output_(outputs_of(space_, input_, windows_, options_.name)) {
  Sizes shape = output_.extents();
  shape.insert(shape.end(), {out, in});
  for (const Window& window : windows_) shape.push_back(window.size);
  std::vector<Box> boxes;
  for (Box box : space_.boxes(output_)) {
    for (std::size_t d = box.size(); d < shape.size(); ++d) box.push_back({0, shape[d]});
    boxes.push_back(std::move(box));
  }
  const std::int64_t fan_in = product(at::IntArrayRef(shape).slice(windows_.size() + 1));
  weight = add("weight", Draw(options_.seed, space_.group()).uniform(shape, fan_in), std::move(boxes), space_.group());
}

at::Tensor SpaceLocalFilterImpl::filters() const {
  const auto positions = windows_.size();
  const at::IntArrayRef sizes = weight.sizes();
  return weight.reshape({product(sizes.slice(0, positions)), sizes[positions], product(sizes.slice(positions + 1))});
}

Tile SpaceLocalFilterImpl::forward(const Tile& input) {
  if (input.tiling != input_)
    throw Error(Code::invalid, "'" + options_.name + "' was made for pictures of " + extents_text(input_.extents()) +
                                   " positions, cut evenly");
  const at::Tensor chunk = space_.read(input, windows_, output_);
  const Box mine = space_.box(output_);
  const std::int64_t samples = chunk.size(0), out = weight.size(static_cast<std::int64_t>(windows_.size()));
  const std::vector<std::int64_t> sizes = sizes_of({samples, out}, mine);
  if (volume(mine) == 0) return {(chunk.sum() * 0 + weight.sum() * 0).expand(sizes), output_};
  const at::Tensor seen = positions_first(unfolded(chunk, windows_), static_cast<std::int64_t>(windows_.size()));
  const at::Tensor rows = seen.reshape({volume(mine), samples, -1});
  return {at::bmm(rows, filters().transpose(1, 2)).permute({1, 2, 0}).reshape(sizes), output_};
}

Tile SpaceLocalFilterImpl::backwards(const Tile& output) {
  if (output.tiling != output_)
    throw Error(Code::invalid, "'" + options_.name + "' gives pictures of " + extents_text(output_.extents()) +
                                   " positions, cut evenly");
  // The transposed layer is the adjoint of forward(), computed as its gradient; both are differentiable operations.
  const std::int64_t samples = output.values.size(0), in = weight.size(static_cast<std::int64_t>(windows_.size()) + 1);
  const at::Tensor picture =
      at::zeros(sizes_of({samples, in}, space_.box(input_)), output.values.options()).requires_grad_();
  const bool is_enabled = at::GradMode::is_enabled();
  const at::AutoGradMode grad(true);
  const at::Tensor there = forward(Tile{picture, input_}).values;
  return {torch::autograd::grad({there}, {picture}, {output.values}, is_enabled, is_enabled)[0], input_};
}

void SpaceLocalFilterImpl::normalise_filters() {
  const torch::NoGradGuard no_grad;
  const auto positions = static_cast<std::int64_t>(windows_.size());
  std::vector<std::int64_t> inner;
  for (std::int64_t d = positions + 1; d < weight.dim(); ++d) inner.push_back(d);
  weight.div_(weight.pow(2).sum(inner, true).sqrt());
}

SpaceLcnImpl::SpaceLcnImpl(Space space, LcnOptions options)
    : torch::nn::Module("SpaceLcn"), space_(std::move(space)), options_(std::move(options)) {
  const std::int64_t size = options_.size;
  if (size < 1) throw Error(Code::invalid, "'" + options_.name + "': a window has a position at least");
  if (options_.sigma == 0) options_.sigma = static_cast<double>(size) / 4;
  const std::int64_t after = (size - 1) / 2;
  windows_.assign(space_.dimensions(), {.size = size, .low = size - 1 - after, .high = after});
}

at::Tensor SpaceLcnImpl::blurred(const Tile& input) const {
  const std::int64_t size = options_.size, channels = input.values.size(1);
  const at::TensorOptions options = input.values.options();
  const at::Tensor place = at::arange(size, options) - static_cast<double>(size - 1) / 2;
  const at::Tensor line = (place * place / (-2 * options_.sigma * options_.sigma)).exp();
  at::Tensor kernel = at::ones({1, channels}, options) / channels;
  for (std::size_t d = 0; d < windows_.size(); ++d) kernel = kernel.unsqueeze(-1) * (line / line.sum());
  const at::Tensor chunk = space_.read(input, windows_, input.tiling);
  const Sizes ones(windows_.size(), 1), none(windows_.size(), 0);
  if (input.values.numel() == 0) return input.values.narrow(1, 0, 1) + chunk.sum() * 0;
  return at::convolution(chunk, kernel, {}, ones, none, ones, false, none, 1);
}

Tile SpaceLcnImpl::forward(const Tile& input) {
  const at::Tensor mean = blurred(input);
  const Tile y{input.values - mean, input.tiling};
  const at::Tensor root = safe_sqrt(blurred({y.values * y.values, input.tiling}));
  // In an area of constant values, the root is only a rounding error, and dividing by it would amplify it.
  const double rounding = 64 * (mean.scalar_type() == at::kDouble ? std::numeric_limits<double>::epsilon()
                                                                  : std::numeric_limits<float>::epsilon());
  return {y.values / root.masked_fill(root.le(mean.abs() * rounding), 1), input.tiling};
}

SpaceBatchNormImpl::SpaceBatchNormImpl(std::int64_t channels, Space space, std::optional<Communicator> together,
                                       double eps, double momentum)
    : ParallelModule("SpaceBatchNorm"), space_(std::move(space)) {
  norm = register_module(
      "norm", SyncBatchNorm(torch::nn::BatchNormOptions(channels).eps(eps).momentum(momentum).affine(false)));
  if (!together) together = space_.group()->communicator();
  if (together) norm->connect(*together);
  weight = add("weight", at::ones({channels}), space_.group());
  bias = add("bias", at::zeros({channels}), space_.group());
}

Tile SpaceBatchNormImpl::forward(const Tile& input) {
  Sizes shape(space_.dimensions() + 2, 1);
  shape[1] = weight.numel();
  const at::Tensor scale = copy_to(weight, space_.group()).view(shape),
                   shift = copy_to(bias, space_.group()).view(shape);
  return {norm->forward(input.values) * scale + shift, input.tiling};
}

SpaceHeadImpl::SpaceHeadImpl(std::int64_t channels, const Tiling& tiling, std::int64_t out, Space space,
                             SpaceHeadOptions options)
    : ParallelModule("SpaceHead"), space_(std::move(space)), tiling_(tiling), options_(std::move(options)) {
  Sizes shape{out, channels};
  for (const std::int64_t extent : tiling_.extents()) shape.push_back(extent);
  std::vector<Box> boxes;
  for (const Box& tile : space_.boxes(tiling_)) {
    Box box{{0, out}, {0, channels}};
    box.insert(box.end(), tile.begin(), tile.end());
    boxes.push_back(std::move(box));
  }
  const std::int64_t fan_in = product(at::IntArrayRef(shape).slice(1));
  Draw draw(options_.seed, space_.group());
  weight = add("weight", draw.uniform(shape, fan_in), std::move(boxes), space_.group());
  bias = add("bias", options_.bias ? draw.uniform({out}, fan_in) : at::Tensor(), space_.group());
}

at::Tensor SpaceHeadImpl::forward(const Tile& input) {
  if (input.tiling != tiling_ || input.values.size(1) != weight.size(1))
    throw Error(Code::invalid, "'" + options_.name + "' was made for " + std::to_string(weight.size(1)) +
                                   " channels of " + extents_text(tiling_.extents()) + " positions, not for " +
                                   std::to_string(input.values.size(1)) + " of " +
                                   extents_text(input.tiling.extents()));
  const at::Tensor term = at::linear(input.values.flatten(1), weight.flatten(1));
  const at::Tensor output = reduce_from(term, space_.group());
  return bias.defined() ? output + bias : output;
}

SpaceLocalFilter LocalFilteringLayerDist(std::int64_t in, std::int64_t out, std::span<const std::int64_t> extents,
                                         Space space, LocalFilterOptions options) {
  return SpaceLocalFilter(in, out, extents, std::move(space), std::move(options));
}
SpaceLcn LCNLayerDist(Space space, LcnOptions options) { return SpaceLcn(std::move(space), std::move(options)); }

}  // namespace tutti::nn
