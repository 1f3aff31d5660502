#include "engine/models/parallel.hpp"

#include <ATen/Functions.h>
#include <torch/nn/modules/linear.h>
#include <torch/utils.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "engine/models/makers.hpp"
#include "nn/parallel/linear.hpp"
#include "nn/parallel/space_layers.hpp"
#include "transports/core/status.hpp"

namespace tutti::engine {
namespace {

using Kind = Layer::Kind;

std::string layer_name(const Layer& layer) {
  return std::string(layer_table()[static_cast<std::size_t>(layer.kind)].name);
}

[[noreturn]] void refuse_split(const Layer& layer, const Mesh& mesh, const std::string& why) {
  throw Error(Code::unsupported,
              layer.place + layer_name(layer) + " cannot be split over mesh " + mesh.name() + ": " + why);
}

/// Element by element, so that it works on parts as on the whole.
std::function<at::Tensor(const at::Tensor&)> element_wise(const Layer& layer) {
  switch (layer.kind) {
    case Kind::relu: return [](const at::Tensor& x) { return at::relu(x); };
    case Kind::leakyrelu: return [slope = layer.number](const at::Tensor& x) { return at::leaky_relu(x, slope); };
    case Kind::elu: return [alpha = layer.number](const at::Tensor& x) { return at::elu(x, alpha); };
    case Kind::gelu: return [](const at::Tensor& x) { return at::gelu(x); };
    case Kind::tanh: return [](const at::Tensor& x) { return at::tanh(x); };
    case Kind::sigmoid: return [](const at::Tensor& x) { return at::sigmoid(x); };
    default: return {};
  }
}

/// What goes from layer to layer: images in tiles, or all of them; or rows of numbers.
struct Flow {
  std::optional<nn::Tile> tile;
  at::Tensor values;
};

class ParallelChain final : public torch::nn::Module {
 public:
  ParallelChain(const SampleShape& input, std::vector<Layer> layers, std::int64_t classes, const Mesh& mesh)
      : layers_(std::move(layers)),
        classes_(classes),
        mesh_(mesh),
        space_(mesh, 2),
        tensor_(nn::group_of(mesh, "tensor")) {
    if (input.size() == 3) {
      shape_ = nn::Tile{at::Tensor(), space_.even(std::span(input).last(2))};
      width_ = input[0];
      steps_.push_back([this](Flow flow) { return Flow{space_.cut(flow.values), {}}; });
    } else {
      width_ = input.front();
    }
    for (std::size_t i = 0; i < layers_.size(); ++i) add(i);
  }

  at::Tensor forward(const at::Tensor& batch) {
    Flow flow{std::nullopt, batch};
    for (const auto& step : steps_) flow = step(std::move(flow));
    return flow.values;
  }

 private:
  void add(std::size_t index);
  void add_conv(const Layer& layer);
  void add_pool(const Layer& layer);
  void add_norm(const Layer& layer);
  void add_grid(const Layer& layer);
  void add_flatten();
  void add_linear(std::size_t index);

  std::string next_name(const std::string& kind) const {
    std::size_t number = 1;
    for (const auto& child : named_children()) number += child.key().starts_with(kind);
    return kind + std::to_string(number);
  }
  /// Padding that is alike on both sides.
  nn::Sizes padding_of(const Layer& layer) const;
  bool is_paired(std::size_t index) const;
  /// Takes images from here on as a whole.
  void bring_together();
  template <class Module>
  void slide(Module module) {
    steps_.push_back([module = std::move(module)](Flow flow) mutable { return Flow{module->forward(*flow.tile), {}}; });
  }

  std::vector<Layer> layers_;
  std::int64_t classes_;
  Mesh mesh_;
  nn::Space space_;
  nn::Group tensor_;
  std::optional<nn::Tile> shape_;  // of images in tiles, without values
  std::int64_t width_ = 0;         // channels, or numbers of a row; with the whole images' sides behind them
  nn::Sizes sides_;                // of whole images
  bool is_flat_ = false, in_parts_ = false;
  std::vector<std::function<Flow(Flow)>> steps_;
};

nn::Sizes ParallelChain::padding_of(const Layer& layer) const {
  if (!layer.same) return {layer.padding[0], layer.padding[1]};
  nn::Sizes padding;
  for (std::size_t d = 0; d < 2; ++d) {
    const std::int64_t in = shape_->tiling[d].extent(), out = (in + layer.stride[d] - 1) / layer.stride[d];
    const std::int64_t all = std::max<std::int64_t>((out - 1) * layer.stride[d] + layer.kernel[d] - in, 0);
    if (all % 2 != 0) refuse_split(layer, mesh_, "padding=same would need one more row after than before");
    padding.push_back(all / 2);
  }
  return padding;
}

void ParallelChain::add(std::size_t index) {
  const Layer& layer = layers_[index];
  if (const auto apply = element_wise(layer)) {
    steps_.push_back([apply](Flow flow) {
      (flow.tile ? flow.tile->values : flow.values) = apply(flow.tile ? flow.tile->values : flow.values);
      return flow;
    });
    return;
  }
  const bool of_images = layer.kind != Kind::linear && layer.kind != Kind::dropout && layer.kind != Kind::softmax;
  if (of_images && !shape_ && layer.kind != Kind::flatten)
    refuse_split(layer, mesh_, "it stands behind whole images or rows");
  switch (layer.kind) {
    case Kind::conv: return add_conv(layer);
    case Kind::maxpool:
    case Kind::avgpool: return add_pool(layer);
    case Kind::batchnorm: return add_norm(layer);
    case Kind::gridpool: return add_grid(layer);
    case Kind::flatten: return add_flatten();
    case Kind::linear: return add_linear(index);
    default: break;
  }
  if (shape_ || in_parts_) {
    if (layer.kind == Kind::dropout && layer.number == 0) return;
    refuse_split(layer, mesh_, "what it does depends on more than a part: put it behind the dense layers");
  }
  steps_.push_back([this, layer](Flow flow) {
    flow.values = layer.kind == Kind::softmax ? at::softmax(flow.values, 1)
                                              : at::dropout(flow.values, layer.number, is_training());
    return flow;
  });
}

void ParallelChain::add_conv(const Layer& layer) {
  nn::SpaceConvOptions options{.kernel = {layer.kernel[0], layer.kernel[1]},
                               .stride = {layer.stride[0], layer.stride[1]}};
  options.padding = padding_of(layer);
  options.groups = layer.groups;
  options.bias = layer.bias;
  options.seed = 1;  // the sequential network's values take their place
  options.name = next_name("conv");
  const auto conv = register_module(options.name, nn::SpaceConv(width_, layer.size, space_, options));
  shape_->tiling = space_.outputs(*shape_, conv->windows(), options.name);
  width_ = layer.size;
  slide(conv);
}

void ParallelChain::add_pool(const Layer& layer) {
  nn::SpacePoolOptions options{.kernel = {layer.kernel[0], layer.kernel[1]},
                               .stride = {layer.stride[0], layer.stride[1]}};
  options.padding = padding_of(layer);
  options.ceil = layer.ceil;
  options.count_include_pad = !layer.same;
  options.name = layer_name(layer);
  nn::SpacePool pool(layer.kind == Kind::maxpool ? nn::Pool::max : nn::Pool::average, space_, options);
  shape_->tiling = space_.outputs(*shape_, pool->windows(), options.name);
  slide(pool);
}

void ParallelChain::add_norm(const Layer& layer) {
  slide(register_module(next_name("norm"),
                        nn::SpaceBatchNorm(width_, space_, std::nullopt, layer.number, layer.momentum)));
}

void ParallelChain::bring_together() {
  sides_ = shape_->tiling.extents();
  shape_.reset();
  steps_.push_back([this](Flow flow) { return Flow{std::nullopt, space_.whole(*flow.tile)}; });
}

void ParallelChain::add_grid(const Layer& layer) {
  const nn::Sizes extents = shape_->tiling.extents();
  const nn::Sizes grid{std::min(layer.kernel[0], extents[0]), std::min(layer.kernel[1], extents[1])};
  if (grid == extents) return;
  bring_together();
  sides_ = grid;
  steps_.push_back([grid](Flow flow) { return Flow{std::nullopt, at::adaptive_avg_pool2d(flow.values, grid)}; });
}

void ParallelChain::add_flatten() {
  is_flat_ = true;
  if (!shape_) {
    for (const std::int64_t side : sides_) width_ *= side;
    sides_.clear();
    steps_.push_back([](Flow flow) { return Flow{std::nullopt, flow.values.flatten(1)}; });
  } else if (tensor_->size() > 1) {
    bring_together();
    add_flatten();
  }  // else the dense layer takes tiles
}

/// Whether the next layer that is not element-wise is dense too, and both are wide enough.
bool ParallelChain::is_paired(std::size_t index) const {
  const Layer& low = layers_[index];
  if (tensor_->size() == 1 || low.size < tensor_->size()) return false;
  for (std::size_t i = index + 1; i < layers_.size(); ++i)
    if (!element_wise(layers_[i])) return layers_[i].kind == Kind::linear;
  return false;
}

void ParallelChain::add_linear(std::size_t index) {
  const Layer& layer = layers_[index];
  if (!is_flat_) refuse_split(layer, mesh_, "images come before it: put flatten in between");
  const std::string name = next_name("fc");
  const std::int64_t units = layer.size > 0 ? layer.size : classes_;
  const nn::ParallelLinearOptions options{.bias = layer.bias, .seed = 1, .name = name};
  const auto dense = [&](const auto& made) {
    steps_.push_back([made](Flow flow) mutable { return Flow{std::nullopt, made->forward(flow.values)}; });
  };
  if (shape_) {
    const auto head =
        register_module(name, nn::SpaceHead(width_, shape_->tiling, units, space_,
                                            nn::SpaceHeadOptions{.bias = layer.bias, .seed = 1, .name = name}));
    steps_.push_back([head](Flow flow) mutable { return Flow{std::nullopt, head->forward(*flow.tile)}; });
    shape_.reset();
  } else if (in_parts_) {
    dense(register_module(name, nn::RowParallelLinear(width_, units, tensor_, options)));
    in_parts_ = false;
  } else if (is_paired(index)) {
    dense(register_module(name, nn::ColumnParallelLinear(width_, units, tensor_, options)));
    in_parts_ = true;
  } else {
    dense(register_module(name, torch::nn::Linear(torch::nn::LinearOptions(width_, units).bias(layer.bias))));
  }
  width_ = units;
}

/// The sequential network's parameters, each rank its part.
void load_parameters(torch::nn::Module& parallel, const torch::nn::Module& sequential) {
  const torch::NoGradGuard no_grad;
  auto mine = parallel.named_parameters();
  const auto children = parallel.named_children();
  for (const auto& parameter : sequential.named_parameters()) {
    const std::size_t dot = parameter.key().rfind('.');
    const auto layer = children[parameter.key().substr(0, dot)];
    const std::string name = parameter.key().substr(dot + 1);
    if (auto* parts = dynamic_cast<nn::ParallelModule*>(layer.get())) {
      const auto part = std::ranges::find(parts->parts(), name, &nn::ParameterPart::name);
      parts->load(name, parameter.value().reshape(part->sizes));
    } else {
      mine[parameter.key()].copy_(parameter.value());
    }
  }
}

}  // namespace

Network split_model(const Network& sequential, const ModelSettings& settings, const Mesh& mesh) {
  auto chain = std::make_shared<ParallelChain>(settings.input, models::layers_of(settings), settings.classes, mesh);
  chain->to(settings.dtype == "float64" ? at::kDouble : at::kFloat);
  load_parameters(*chain, *sequential.module);
  return {.module = chain, .forward = [raw = chain.get()](const at::Tensor& batch) { return raw->forward(batch); }};
}

Network make_parallel_model(const ModelSettings& settings, const Mesh& mesh) {
  return split_model(make_model(settings), settings, mesh);
}

}  // namespace tutti::engine
