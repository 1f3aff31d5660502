// The networks that a configuration can name.
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/utils.h>

#include <charconv>
#include <string>

#include "engine/trainer.hpp"

namespace tutti::engine {
namespace {

/// LeCun's two convolutions with pooling and two dense layers, with kernels to suit the image.
struct LeNet : torch::nn::Module {
  LeNet(const ImageShape& image, std::int64_t classes) {
    const bool large = image.height >= 16 && image.width >= 16;
    const std::int64_t kernel = large ? 5 : 3, first = large ? 20 : 24, second = large ? 50 : 48;
    const std::int64_t padding = large ? 0 : 1;
    const auto after = [&](std::size_t side) {
      const auto once = (static_cast<std::int64_t>(side) + 2 * padding - kernel + 1) / 2;
      return (once + 2 * padding - kernel + 1) / 2;
    };
    const std::int64_t flat = second * after(image.height) * after(image.width);
    if (after(image.height) < 1 || after(image.width) < 1)
      throw Error(Code::invalid, "model=lenet needs images of at least 4x4 pixels; use model=mlp");
    using Options = torch::nn::Conv2dOptions;
    conv1 = register_module(
        "conv1", torch::nn::Conv2d(Options(static_cast<std::int64_t>(image.channels), first, kernel).padding(padding)));
    conv2 = register_module("conv2", torch::nn::Conv2d(Options(first, second, kernel).padding(padding)));
    fc1 = register_module("fc1", torch::nn::Linear(flat, large ? 500 : 128));
    fc2 = register_module("fc2", torch::nn::Linear(large ? 500 : 128, classes));
  }

  at::Tensor forward(const at::Tensor& images) {
    at::Tensor x = at::max_pool2d(at::relu(conv1->forward(images)), 2);
    x = at::max_pool2d(at::relu(conv2->forward(x)), 2);
    return fc2->forward(at::relu(fc1->forward(x.flatten(1))));
  }

  torch::nn::Conv2d conv1{nullptr}, conv2{nullptr};
  torch::nn::Linear fc1{nullptr}, fc2{nullptr};
};

struct Mlp : torch::nn::Module {
  Mlp(std::int64_t inputs, const std::vector<std::int64_t>& hidden, std::int64_t classes) {
    for (std::int64_t width : hidden) {
      add(inputs, width);
      inputs = width;
    }
    add(inputs, classes);
  }

  void add(std::int64_t from, std::int64_t to) {
    layers.push_back(register_module("fc" + std::to_string(layers.size() + 1), torch::nn::Linear(from, to)));
  }

  at::Tensor forward(const at::Tensor& images) {
    at::Tensor x = images.flatten(1);
    for (std::size_t i = 0; i < layers.size(); ++i) {
      x = layers[i]->forward(x);
      if (i + 1 < layers.size()) x = at::relu(x);
    }
    return x;
  }

  std::vector<torch::nn::Linear> layers;
};

std::vector<std::int64_t> parse_hidden(const std::string& text) {
  std::vector<std::int64_t> sizes;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at < end) {
    std::int64_t size = 0;
    const auto [rest, error] = std::from_chars(at, end, size);
    if (error != std::errc() || size < 1 || size > (1 << 20) || (rest != end && (*rest != ',' || rest + 1 == end)))
      throw Error(Code::invalid, "hidden=" + text + ": expected sizes of layers, as in hidden=256,128");
    sizes.push_back(size);
    at = rest == end ? end : rest + 1;
  }
  return sizes;
}

template <class Module>
Network wrap(std::shared_ptr<Module> module, const Config& config) {
  module->to(config.dtype == "float64" ? at::kDouble : at::kFloat);
  return {.module = module, .forward = [raw = module.get()](const at::Tensor& images) { return raw->forward(images); }};
}

}  // namespace

Network make_network(const Config& config, const ImageShape& image, std::size_t classes) {
  torch::manual_seed(static_cast<std::uint64_t>(config.seed));
  const auto outputs = static_cast<std::int64_t>(classes);
  if (config.model.name == "lenet") return wrap(std::make_shared<LeNet>(image, outputs), config);
  return wrap(
      std::make_shared<Mlp>(static_cast<std::int64_t>(image.pixels()), parse_hidden(config.model.hidden), outputs),
      config);
}

}  // namespace tutti::engine
