#include "nn/parallel/convolution.hpp"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>

#include "nn/parallel/placement.hpp"

namespace tutti::nn {
namespace {

Sizes all_of(const Sizes& given, std::size_t dimensions, const std::string& layer, const char* what) {
  if (given.size() == dimensions) return given;
  if (given.size() == 1) return Sizes(dimensions, given.front());
  throw Error(Code::invalid, "'" + layer + "': " + std::to_string(given.size()) + " numbers as " + what + " of " +
                                 std::to_string(dimensions) + " dimensions");
}

void check_windows(const std::vector<Window>& windows, const std::string& layer) {
  for (const Window& window : windows)
    if (window.size < 1 || window.stride < 1 || window.dilation < 1 || window.low < 0 || window.extra < 0)
      throw Error(Code::invalid, "'" + layer + "': kernel, stride and dilation are at least 1, padding at least 0");
}

/// An empty result that depends on its inputs in autograd, so that all ranks run the same backward.
at::Tensor nothing_of(const at::Tensor& chunk, const at::Tensor& weight, at::IntArrayRef sizes) {
  const at::Tensor zero = chunk.sum() * 0 + (weight.defined() ? weight.sum() * 0 : at::zeros({}, chunk.options()));
  return zero.expand(sizes);
}

}  // namespace

at::Tensor safe_sqrt(const at::Tensor& values) {
  const at::Tensor is_zero = values.eq(0);
  return values.masked_fill(is_zero, 1).sqrt().masked_fill(is_zero, 0);
}

SpaceConvImpl::SpaceConvImpl(std::int64_t in, std::int64_t out, Space space, SpaceConvOptions options)
    : ParallelModule("SpaceConv"), space_(std::move(space)), options_(std::move(options)) {
  const std::size_t dimensions = space_.dimensions();
  SpaceConvOptions& o = options_;
  o.kernel = all_of(o.kernel, dimensions, o.name, "kernel");
  o.stride = all_of(o.stride, dimensions, o.name, "stride");
  o.padding = all_of(o.padding, dimensions, o.name, "padding");
  o.dilation = all_of(o.dilation, dimensions, o.name, "dilation");
  o.output_padding = all_of(o.output_padding, dimensions, o.name, "output padding");
  for (std::size_t d = 0; d < dimensions; ++d)
    windows_.push_back({.size = o.kernel[d],
                        .stride = o.stride[d],
                        .dilation = o.dilation[d],
                        .low = o.padding[d],
                        .high = o.padding[d],
                        .transposed = o.transposed,
                        .extra = o.output_padding[d]});
  check_windows(windows_, o.name);
  if (o.groups < 1 || in % o.groups != 0 || out % o.groups != 0)
    throw Error(Code::invalid, "'" + o.name + "': " + std::to_string(o.groups) + " groups do not divide " +
                                   std::to_string(in) + " and " + std::to_string(out) + " channels");
  Sizes shape = o.transposed ? Sizes{in, out / o.groups} : Sizes{out, in / o.groups};
  shape.insert(shape.end(), o.kernel.begin(), o.kernel.end());
  const std::int64_t fan_in = std::accumulate(shape.begin() + 1, shape.end(), std::int64_t{1}, std::multiplies<>());
  Draw draw(o.seed, space_.group());
  weight = add("weight", draw.uniform(shape, fan_in), space_.group());
  bias = add("bias", o.bias ? draw.uniform({out}, fan_in) : at::Tensor(), space_.group());
}

at::Tensor SpaceConvImpl::convolve(const at::Tensor& chunk, const at::Tensor& kernel) const {
  const Sizes none(windows_.size(), 0);
  return at::convolution(chunk, kernel, {}, options_.stride, none, options_.dilation, options_.transposed, none,
                         options_.groups);
}

at::Tensor SpaceConvImpl::outputs_of(const at::Tensor& values, const Box& there, const Box& outputs,
                                     const Tiling& tiling, const at::Tensor& kernel) const {
  const Box reads = reads_of(outputs, windows_), inside = common(reads, tiling.whole());
  return convolve(at::constant_pad_nd(slice(values, there, inside), pads_around(inside, reads)), kernel);
}

/// Computes the inner outputs while the halos are exchanged. Then computes the other outputs in slabs that do not
/// overlap, one on each side of each dimension.
at::Tensor SpaceConvImpl::overlapped(const Tile& input, const Tiling& outputs, const Box& inner,
                                     const at::Tensor& kernel) const {
  SplitRead read(space_, input, windows_, outputs);
  at::Tensor values = outputs_of(read.tile(), space_.box(input.tiling), inner, input.tiling, kernel);
  const at::Tensor chunk = read.finish();
  const Box mine = space_.box(outputs);
  const Box there = common(reads_of(mine, windows_), input.tiling.whole());
  Box done = inner;
  for (std::size_t d = windows_.size(); d-- > 0;) {
    Box before = done, after = done;
    before[d] = {mine[d].begin, done[d].begin};
    after[d] = {done[d].end, mine[d].end};
    std::vector<at::Tensor> slabs;
    if (!before[d].empty()) slabs.push_back(outputs_of(chunk, there, before, input.tiling, kernel));
    slabs.push_back(values);
    if (!after[d].empty()) slabs.push_back(outputs_of(chunk, there, after, input.tiling, kernel));
    if (slabs.size() > 1) values = at::cat(slabs, static_cast<std::int64_t>(d) + 2);
    done[d] = mine[d];
  }
  return values;
}

/// For transposed convolutions: the outputs to which inputs contribute, cropped and zero-padded to the box `outputs`.
at::Tensor SpaceConvImpl::spread(const at::Tensor& chunk, const at::Tensor& kernel, const Box& inside,
                                 const Box& outputs) const {
  std::vector<std::int64_t> pads;
  for (std::size_t d = windows_.size(); d-- > 0;) {
    const Window& window = windows_[d];
    const Interval covered{inside[d].begin * window.stride - window.low,
                           (inside[d].end - 1) * window.stride - window.low + window.reach()};
    pads.push_back(covered.begin - outputs[d].begin);
    pads.push_back(outputs[d].end - covered.end);
  }
  return at::constant_pad_nd(convolve(chunk, kernel), pads);
}

Tile SpaceConvImpl::forward(const Tile& input) {
  const Tiling outputs = space_.outputs(input, windows_, options_.name);
  const Box mine = space_.box(outputs), tile = space_.box(input.tiling);
  const at::Tensor kernel = copy_to(weight, space_.group());
  const std::int64_t channels = options_.transposed ? weight.size(1) * options_.groups : weight.size(0);
  Box inner;
  for (std::size_t d = 0; d < windows_.size() && !options_.transposed; ++d)
    inner.push_back(tutti::inner(windows_[d], mine[d], tile[d], input.tiling[d].extent()));
  const std::int64_t apart = options_.transposed ? 0 : volume(inner);
  at::Tensor values;
  if (apart > 0 && space_.group()->size() > 1 && options_.overlap) {
    values = overlapped(input, outputs, inner, kernel);
  } else if (options_.transposed) {
    const at::Tensor chunk = space_.read_inside(input, windows_, outputs);
    const Box inside = common(reads_of(mine, windows_), input.tiling.whole());
    values = chunk.numel() == 0 || volume(mine) == 0
                 ? nothing_of(chunk, kernel, sizes_of({chunk.size(0), channels}, mine))
                 : spread(chunk, kernel, inside, mine);
  } else {
    const at::Tensor chunk = space_.read(input, windows_, outputs);
    values = volume(mine) == 0 ? nothing_of(chunk, kernel, sizes_of({chunk.size(0), channels}, mine))
                               : convolve(chunk, kernel);
  }
  if (bias.defined()) {
    Sizes shape(windows_.size() + 2, 1);
    shape[1] = channels;
    values = values + copy_to(bias, space_.group()).view(shape);
  }
  return {values, outputs};
}

SpacePoolImpl::SpacePoolImpl(Pool kind, Space space, SpacePoolOptions options)
    : torch::nn::Module("SpacePool"), kind_(kind), space_(std::move(space)), options_(std::move(options)) {
  const std::size_t dimensions = space_.dimensions();
  SpacePoolOptions& o = options_;
  o.kernel = all_of(o.kernel, dimensions, o.name, "kernel");
  o.stride = all_of(o.stride.empty() ? o.kernel : o.stride, dimensions, o.name, "stride");
  o.padding = all_of(o.padding, dimensions, o.name, "padding");
  o.dilation = all_of(o.dilation, dimensions, o.name, "dilation");
  for (std::size_t d = 0; d < dimensions; ++d) {
    windows_.push_back({.size = o.kernel[d],
                        .stride = o.stride[d],
                        .dilation = o.dilation[d],
                        .low = o.padding[d],
                        .high = o.padding[d],
                        .ceil = o.ceil});
    if (o.padding[d] > o.kernel[d] / 2 || (kind_ != Pool::max && o.dilation[d] != 1))
      throw Error(Code::invalid, "'" + o.name + "': padding is at most half the kernel, and only max has a dilation");
  }
  check_windows(windows_, o.name);
}

at::Tensor SpacePoolImpl::shares(const Tile& input, const Box& outputs) const {
  at::Tensor all = at::ones({1}, input.values.options());
  for (std::size_t d = 0; d < windows_.size(); ++d) {
    const Window& window = windows_[d];
    const std::int64_t extent = input.tiling[d].extent();
    std::vector<double> here;
    for (std::int64_t o = outputs[d].begin; o < outputs[d].end; ++o) {
      const std::int64_t begin = o * window.stride - window.low;
      const std::int64_t end = std::min(begin + window.size, extent + window.high);
      here.push_back(1 / static_cast<double>(options_.count_include_pad
                                                 ? end - begin
                                                 : std::min(end, extent) - std::max<std::int64_t>(begin, 0)));
    }
    all = all.unsqueeze(-1) * at::tensor(here, all.options());
  }
  return all;
}

Tile SpacePoolImpl::forward(const Tile& input) {
  const Tiling outputs = space_.outputs(input, windows_, options_.name);
  const Box mine = space_.box(outputs);
  const double outside = kind_ == Pool::max ? -std::numeric_limits<double>::infinity() : 0;
  const at::Tensor chunk = space_.read(input, windows_, outputs, outside);
  if (volume(mine) == 0) return {nothing_of(chunk, {}, sizes_of({chunk.size(0), chunk.size(1)}, mine)), outputs};
  // A 1-dimensional input is pooled as an image of height 1.
  const bool is_line = windows_.size() == 1;
  const auto wide = [&](Sizes sizes, std::int64_t one) {
    if (is_line) sizes.insert(sizes.begin(), one);
    return sizes;
  };
  const Sizes kernel = wide(options_.kernel, 1), stride = wide(options_.stride, 1), none(kernel.size(), 0);
  at::Tensor in = is_line ? chunk.unsqueeze(2) : chunk, out;
  if (kind_ == Pool::max) {
    const Sizes dilation = wide(options_.dilation, 1);
    out = kernel.size() == 2 ? at::max_pool2d(in, kernel, stride, none, dilation)
                             : at::max_pool3d(in, kernel, stride, none, dilation);
  } else {
    if (kind_ == Pool::l2) in = in * in;
    out = kernel.size() == 2 ? at::avg_pool2d(in, kernel, stride, none, false, true, 1)
                             : at::avg_pool3d(in, kernel, stride, none, false, true, 1);
  }
  if (is_line) out = out.squeeze(2);
  if (kind_ == Pool::average) out = out * shares(input, mine).squeeze(0);
  if (kind_ == Pool::l2) out = safe_sqrt(out);
  return {out, outputs};
}

SpaceConv ConvLayerDist(std::int64_t in, std::int64_t out, Space space, SpaceConvOptions options) {
  return SpaceConv(in, out, std::move(space), std::move(options));
}
SpacePool MaxPoolingLayerDist(Space space, SpacePoolOptions options) {
  return SpacePool(Pool::max, std::move(space), std::move(options));
}
SpacePool AveragePoolingLayerDist(Space space, SpacePoolOptions options) {
  return SpacePool(Pool::average, std::move(space), std::move(options));
}
SpacePool L2PoolingLayerDist(Space space, SpacePoolOptions options) {
  return SpacePool(Pool::l2, std::move(space), std::move(options));
}

}  // namespace tutti::nn
