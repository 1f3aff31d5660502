// Models that are a single chain of layers.
#include <algorithm>
#include <cmath>
#include <filesystem>

#include "engine/models/makers.hpp"
#include "engine/models/model.hpp"
#include "tutti/status.hpp"

namespace tutti::engine::models {
namespace {

using Kind = Layer::Kind;
using Layers = std::vector<Layer>;

const Layer relu = plain_layer(Kind::relu), flatten = plain_layer(Kind::flatten);

void append(Layers& layers, const Layers& more) { layers.insert(layers.end(), more.begin(), more.end()); }

Layers mlp(const Request& request) {
  Layers layers{flatten};
  for (const std::int64_t units : request.options.sizes("hidden")) append(layers, {linear_layer(units), relu});
  layers.push_back(linear_layer(0));
  return layers;
}

/// LeCun et al. 1998 with ReLU, and with kernel sizes that suit the image.
Layers lenet(const Request& request) {
  const std::int64_t rows = request.input[1], columns = request.input[2];
  if (rows < 4 || columns < 4) refuse("it needs images of at least 4x4 pixels; use model=mlp");
  const bool large = rows >= 16 && columns >= 16;
  const std::int64_t kernel = large ? 5 : 3, padding = large ? 0 : 1;
  const Layer pool = pool_layer(Kind::maxpool, 2, 2);
  return {conv_layer(large ? 20 : 24, kernel, 1, padding),
          relu,
          pool,
          conv_layer(large ? 50 : 48, kernel, 1, padding),
          relu,
          pool,
          flatten,
          linear_layer(large ? 500 : 128),
          relu,
          linear_layer(0)};
}

/// cifar10_quick of cuda-convnet and Caffe (Krizhevsky 2012).
Layers cifar() {
  const Layer mean = pool_layer(Kind::avgpool, 3, 2, 0, true);
  return {conv_layer(32, 5, 1, 2),
          pool_layer(Kind::maxpool, 3, 2, 0, true),
          relu,
          conv_layer(32, 5, 1, 2),
          relu,
          mean,
          conv_layer(64, 5, 1, 2),
          relu,
          mean,
          flatten,
          linear_layer(64),
          linear_layer(0)};
}

/// Adaptive average pooling to at most grid x grid, then two hidden dense layers and the output layer.
void append_classifier(Layers& layers, const Request& request, std::int64_t grid, bool dropout_first) {
  const Layer drop = dropout_layer(request.options.number("dropout"));
  const Layer hidden = linear_layer(request.options.whole("hidden"));
  append(layers, {grid_layer(grid), flatten});
  if (dropout_first)
    append(layers, {drop, hidden, relu, drop, hidden, relu, linear_layer(0)});
  else
    append(layers, {hidden, relu, drop, hidden, relu, drop, linear_layer(0)});
}

/// Max pooling that halves `side`, if it is at least 2.
void append_halving(Layers& layers, std::int64_t& side) {
  if (side >= 2) layers.push_back(pool_layer(Kind::maxpool, 2, 2));
  side /= 2;
}

/// Krizhevsky 2014 (the single tower, as in torchvision), with smaller kernels for images below 63 pixels.
Layers alexnet(const Request& request) {
  std::int64_t side = std::min(request.input[1], request.input[2]);
  const bool small = side < 63;
  Layers layers;
  const auto conv = [&](double channels, std::int64_t kernel, std::int64_t stride, std::int64_t padding) {
    append(layers, {conv_layer(request.scaled(channels), kernel, stride, padding), relu});
  };
  const auto pool = [&] {
    if (small)
      append_halving(layers, side);
    else
      layers.push_back(pool_layer(Kind::maxpool, 3, 2));
  };
  small ? conv(64, 5, 1, 2) : conv(64, 11, 4, 2);
  pool();
  conv(192, 5, 1, 2);
  pool();
  conv(384, 3, 1, 1);
  conv(256, 3, 1, 1);
  conv(256, 3, 1, 1);
  pool();
  append_classifier(layers, request, 6, true);
  return layers;
}

/// Simonyan and Zisserman 2015, configuration D.
Layers vgg16(const Request& request) {
  const bool normal = request.options.flag("batchnorm");
  std::int64_t side = std::min(request.input[1], request.input[2]);
  Layers layers;
  for (const auto& [channels, depth] : {std::pair{64, 2}, {128, 2}, {256, 3}, {512, 3}, {512, 3}}) {
    for (int i = 0; i < depth; ++i) {
      layers.push_back(conv_layer(request.scaled(channels), 3, 1, 1, !normal));
      if (normal) layers.push_back(norm_layer());
      layers.push_back(relu);
    }
    append_halving(layers, side);
  }
  append_classifier(layers, request, 7, false);
  return layers;
}

}  // namespace

std::int64_t Request::scaled(double channels) const {
  return std::max<std::int64_t>(1, std::llround(channels * options.number("width")));
}

namespace {

Layers chain_of(const Request& request) {
  const std::string_view name = request.options.choice().name;
  if (name == "mlp") return mlp(request);
  if (name == "lenet") return lenet(request);
  if (name == "cifar") return cifar();
  return name == "alexnet" ? alexnet(request) : vgg16(request);
}

}  // namespace

Made make_chain(const Request& request) {
  const auto chain = std::make_shared<Chain>(request.input, chain_of(request), request.classes);
  if (request.options.choice().name == "vgg16") initialise_convolutions(*chain);
  return made(chain);
}

std::vector<Layer> layers_of(const ModelSettings& settings) {
  constexpr std::string_view chains[] = {"mlp", "lenet", "cifar", "alexnet", "vgg16"};
  if (std::ranges::find(chains, settings.name) != std::end(chains)) {
    const Options options(choose("model", model_table(), settings.name), settings.options);
    return chain_of({options, settings.input, settings.classes});
  }
  const std::string kind = std::filesystem::path(settings.name).extension();
  if (kind == ".yaml" || kind == ".yml" || kind == ".json") {
    LayerList list = read_layers(settings.name);
    if (list.input.empty()) return std::move(list.layers);
  }
  throw Error(Code::unsupported,
              "model=" + settings.name +
                  " is no chain of layers that can be split: take mlp, lenet, cifar, alexnet, vgg16 or "
                  "a file of layers that states no input");
}

Made make_from_layers(const std::filesystem::path& file, const SampleShape& input, std::int64_t classes) {
  LayerList list = read_layers(file);
  const auto refuse = [&](const std::string& text) { engine::refuse(file.string() + text); };
  const SampleShape& stated = list.input;
  SampleShape shape = input;
  bool permuted = false;
  if (stated.size() == 3) {
    shape = list.channels_last ? SampleShape{stated[2], stated[0], stated[1]} : stated;
    permuted = input != shape && input == stated;
  } else if (stated.size() == 1 && input.size() == 3 && stated[0] == input[0] * input[1] * input[2]) {
    list.layers.insert(list.layers.begin(), flatten);
  }
  if (!stated.empty() && input != shape && !permuted)
    refuse(" states an input of another shape than the data's: change its batch_input_shape");
  const auto chain = std::make_shared<Chain>(shape, list.layers, classes);
  if (chain->shape() != SampleShape{classes})
    refuse(": what comes out of the last layer is not one number for each of the " + std::to_string(classes) +
           " classes: end with " + (list.keras ? "a Dense layer of as many units" : "{linear: classes}"));
  if (list.keras) initialise_as_keras(*chain);
  if (!permuted) return made(chain);
  return {chain, [raw = chain.get()](const at::Tensor& batch) {
            return raw->forward(batch.permute({0, 3, 1, 2}).contiguous());
          }};
}

}  // namespace tutti::engine::models
