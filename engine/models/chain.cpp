#include "engine/models/chain.hpp"

#include <ATen/ops/adaptive_avg_pool2d.h>
#include <ATen/ops/avg_pool2d.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/elu.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/leaky_relu.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/tanh.h>
#include <torch/nn/init.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <limits>

#include "nn/sync_batch_norm.hpp"
#include "transports/core/checked.hpp"
#include "tutti/memory.hpp"
#include "tutti/status.hpp"

namespace tutti::engine {
namespace {

using Kind = Layer::Kind;

[[noreturn]] void refuse_layer(const Layer& layer, const std::string& text) {
  throw Error(Code::invalid,
              layer.place + std::string(layer_table()[static_cast<std::size_t>(layer.kind)].name) + text);
}

std::string by(std::span<const std::int64_t> sizes) {
  std::string text;
  for (const std::int64_t size : sizes) text += (text.empty() ? "" : "x") + std::to_string(size);
  return text;
}

/// Throws unless floats of these sizes fit into the available memory; `what` names them in the error.
void need_room(const Layer& layer, std::span<const std::int64_t> sizes, const std::string& what) {
  const std::uint64_t left = available_memory();
  if (!checked_product(sizeof(float), sizes, left))
    refuse_layer(layer, " would have " + by(sizes) + " " + what + ", which do not fit into the memory that is left, " +
                            size_text(left) + ": choose smaller sizes");
}

}  // namespace

Chain::Chain(SampleShape input, const std::vector<Layer>& layers, std::int64_t classes) : shape_(std::move(input)) {
  for (const Layer& layer : layers) add(layer, classes);
}

at::Tensor Chain::forward(const at::Tensor& batch) {
  at::Tensor x = batch;
  for (const Run& step : steps_) x = step(x);
  return x;
}

void Chain::add(const Layer& layer, std::int64_t classes) {
  add_steps(layer, classes);
  need_room(layer, shape_, "numbers for a sample");
}

void Chain::add_steps(const Layer& layer, std::int64_t classes) {
  switch (layer.kind) {
    case Kind::conv: return add_conv(layer);
    case Kind::linear: return add_linear(layer, classes);
    case Kind::batchnorm: return add_batchnorm(layer);
    case Kind::maxpool:
    case Kind::avgpool: return add_pool(layer);
    case Kind::gridpool: return add_gridpool(layer);
    default: return add_function(layer);
  }
}

std::string Chain::next_name(const std::string& kind) const {
  std::size_t number = 1;
  for (const auto& child : named_children()) number += child.key().starts_with(kind);
  return kind + std::to_string(number);
}

void Chain::need_image(const Layer& layer) const {
  if (shape_.size() != 3) refuse_layer(layer, " needs images, and here are rows of numbers: put it before flatten");
}

Chain::Reach Chain::reach(const Layer& layer, std::size_t side) const {
  const std::int64_t in = shape_[side + 1], kernel = layer.kernel[side], stride = layer.stride[side];
  if (layer.same) {
    const std::int64_t out = (in + stride - 1) / stride;
    const std::int64_t all = std::max<std::int64_t>((out - 1) * stride + kernel - in, 0);
    return {all / 2, all - all / 2, out};
  }
  const std::int64_t padding = layer.padding[side], room = in + 2 * padding - kernel;
  std::int64_t out = room < 0 ? 0 : room / stride + 1;
  if (layer.ceil && room + stride > 0 && room % stride != 0) {
    out = (room + stride - 1) / stride + 1;
    if ((out - 1) * stride >= in + padding) --out;  // a window must start inside the input or its leading padding
  }
  return {padding, padding, out};
}

std::array<std::int64_t, 2> Chain::slide(const Layer& layer, double filler) {
  need_image(layer);
  const Reach rows = reach(layer, 0), columns = reach(layer, 1);
  if (rows.out < 1 || columns.out < 1)
    refuse_layer(layer, " of " + by(layer.kernel) + " does not fit into " + by(std::span(shape_).subspan(1)) +
                            ": take larger images, padding, or fewer layers that make them smaller");
  shape_ = {shape_[0], rows.out, columns.out};
  if (rows.before == rows.after && columns.before == columns.after) return {rows.before, columns.before};
  steps_.push_back([=](const at::Tensor& x) {
    return at::constant_pad_nd(x, {columns.before, columns.after, rows.before, rows.after}, filler);
  });
  return {0, 0};
}

void Chain::add_conv(const Layer& layer) {
  need_image(layer);
  const std::int64_t channels = shape_[0];
  if (channels % layer.groups != 0 || layer.size % layer.groups != 0)
    refuse_layer(layer, ": groups=" + std::to_string(layer.groups) + " must divide its channels, " +
                            std::to_string(channels) + ", and its filters, " + std::to_string(layer.size));
  const auto padding = slide(layer, 0);
  need_room(layer, std::array{layer.size, channels / layer.groups, layer.kernel[0], layer.kernel[1]}, "weights");
  shape_[0] = layer.size;
  auto conv = register_module(
      next_name("conv"),
      torch::nn::Conv2d(torch::nn::Conv2dOptions(channels, layer.size, {layer.kernel[0], layer.kernel[1]})
                            .stride({layer.stride[0], layer.stride[1]})
                            .padding({padding[0], padding[1]})
                            .groups(layer.groups)
                            .bias(layer.bias)));
  steps_.push_back([conv](const at::Tensor& x) { return conv->forward(x); });
}

void Chain::add_linear(const Layer& layer, std::int64_t classes) {
  if (shape_.size() != 1) refuse_layer(layer, " needs rows of numbers, and here are images: put flatten before it");
  const std::int64_t units = layer.size > 0 ? layer.size : classes;
  need_room(layer, std::array{units, shape_[0]}, "weights");
  auto linear =
      register_module(next_name("fc"), torch::nn::Linear(torch::nn::LinearOptions(shape_[0], units).bias(layer.bias)));
  shape_[0] = units;
  steps_.push_back([linear](const at::Tensor& x) { return linear->forward(x); });
}

void Chain::add_batchnorm(const Layer& layer) {
  const auto options = torch::nn::BatchNormOptions(shape_[0]).eps(layer.number).momentum(layer.momentum);
  // Behaves like BatchNorm until it is connected to a communicator.
  auto norm = register_module(next_name("norm"), nn::SyncBatchNorm(options));
  steps_.push_back([norm](const at::Tensor& x) mutable { return norm->forward(x); });
}

void Chain::add_pool(const Layer& layer) {
  const bool largest = layer.kind == Kind::maxpool;
  const std::size_t before = steps_.size();
  const auto padding = slide(layer, -std::numeric_limits<double>::infinity());
  if (!largest && steps_.size() > before)
    refuse_layer(layer,
                 " with padding=same would need one more row after than before: choose another kernel or stride");
  if (2 * padding[0] > layer.kernel[0] || 2 * padding[1] > layer.kernel[1])
    refuse_layer(layer, ": padding may be at most half the kernel");
  steps_.push_back(
      [=, kernel = layer.kernel, stride = layer.stride, ceil = layer.ceil, counted = !layer.same](const at::Tensor& x) {
        return largest ? at::max_pool2d(x, kernel, stride, padding, 1, ceil)
                       : at::avg_pool2d(x, kernel, stride, padding, ceil, counted);
      });
}

void Chain::add_gridpool(const Layer& layer) {
  need_image(layer);
  const Layer::Pair grid{std::min(layer.kernel[0], shape_[1]), std::min(layer.kernel[1], shape_[2])};
  if (shape_[1] == grid[0] && shape_[2] == grid[1]) return;
  shape_ = {shape_[0], grid[0], grid[1]};
  steps_.push_back([grid](const at::Tensor& x) { return at::adaptive_avg_pool2d(x, grid); });
}

void Chain::add_function(const Layer& layer) {
  switch (layer.kind) {
    case Kind::dropout:
      if (layer.number > 0)
        steps_.push_back(
            [this, rate = layer.number](const at::Tensor& x) { return at::dropout(x, rate, is_training()); });
      break;
    case Kind::flatten:
      shape_ = {static_cast<std::int64_t>(*checked_product(1, shape_))};  // no overflow: such a sample fits into memory
      steps_.push_back([](const at::Tensor& x) { return x.flatten(1); });
      break;
    case Kind::leakyrelu:
      steps_.push_back([slope = layer.number](const at::Tensor& x) { return at::leaky_relu(x, slope); });
      break;
    case Kind::elu: steps_.push_back([alpha = layer.number](const at::Tensor& x) { return at::elu(x, alpha); }); break;
    case Kind::gelu: steps_.push_back([](const at::Tensor& x) { return at::gelu(x); }); break;
    case Kind::tanh: steps_.push_back([](const at::Tensor& x) { return at::tanh(x); }); break;
    case Kind::sigmoid: steps_.push_back([](const at::Tensor& x) { return at::sigmoid(x); }); break;
    case Kind::softmax: steps_.push_back([](const at::Tensor& x) { return at::softmax(x, 1); }); break;
    default: steps_.push_back([](const at::Tensor& x) { return at::relu(x); }); break;
  }
}

Layer plain_layer(Kind kind) {
  Layer layer;
  layer.kind = kind;
  return layer;
}

Layer conv_layer(std::int64_t filters, std::int64_t kernel, std::int64_t stride, std::int64_t padding, bool bias) {
  Layer layer = plain_layer(Kind::conv);
  layer.size = filters;
  layer.kernel = {kernel, kernel};
  layer.stride = {stride, stride};
  layer.padding = {padding, padding};
  layer.bias = bias;
  return layer;
}

Layer linear_layer(std::int64_t units) {
  Layer layer = plain_layer(Kind::linear);
  layer.size = units;
  return layer;
}

Layer pool_layer(Kind kind, std::int64_t kernel, std::int64_t stride, std::int64_t padding, bool ceil) {
  Layer layer = conv_layer(0, kernel, stride, padding);
  layer.kind = kind;
  layer.ceil = ceil;
  return layer;
}

Layer grid_layer(std::int64_t side) {
  Layer layer = plain_layer(Kind::gridpool);
  layer.kernel = {side, side};
  return layer;
}

Layer dropout_layer(double rate) {
  Layer layer = plain_layer(Kind::dropout);
  layer.number = rate;
  return layer;
}

Layer norm_layer(double eps) {
  Layer layer = plain_layer(Kind::batchnorm);
  layer.number = eps;
  return layer;
}

void initialise_convolutions(torch::nn::Module& module, Fan fan) {
  for (const auto& each : module.modules())
    if (auto* conv = each->as<torch::nn::Conv2d>()) {
      torch::nn::init::kaiming_normal_(
          conv->weight, 0, fan == Fan::in ? torch::nn::init::FanModeType(torch::kFanIn) : torch::kFanOut, torch::kReLU);
      if (conv->bias.defined()) torch::nn::init::zeros_(conv->bias);
    }
}

void initialise_as_keras(torch::nn::Module& module) {
  for (const auto& parameter : module.named_parameters()) {
    if (parameter.value().dim() > 1)
      torch::nn::init::xavier_uniform_(parameter.value());
    else if (parameter.key().ends_with("bias"))
      torch::nn::init::zeros_(parameter.value());
  }
}

}  // namespace tutti::engine
