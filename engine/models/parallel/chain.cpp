#include "engine/models/parallel/chain.hpp"

#include <ATen/Functions.h>

#include <algorithm>
#include <utility>

#include "nn/parallel/placement.hpp"
#include "nn/parallel/space_layers.hpp"
#include "tutti/status.hpp"

namespace tutti::engine {
namespace {

using Kind = Layer::Kind;

std::string kind_name(const Layer& layer) {
  return std::string(layer_table()[static_cast<std::size_t>(layer.kind)].name);
}

}  // namespace

ParallelChain::Function ParallelChain::element_wise(const Layer& layer) {
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

ParallelChain::ParallelChain(const SampleShape& input, std::vector<Layer> layers, std::int64_t classes, Layout layout,
                             SplitChoices choices)
    : layers_(std::move(layers)), classes_(classes), layout_(std::move(layout)), choices_(std::move(choices)) {
  width_ = input.front();
  if (input.size() == 3) {
    shape_ = nn::Tile{at::Tensor(), layout_.one.even(std::span(input).last(2))};
    steps_.push_back([this, tiling = shape_->tiling](const Flow& flow) {
      return Flow{nn::Tile{flow.values, tiling}, {}};
    });
  } else {
    for (std::size_t d = 1; d < input.size(); ++d) width_ *= input[d];
    is_flat_ = input.size() == 1;
  }
  add_all();
}

ParallelChain::ParallelChain(const Between& input, std::vector<Layer> layers, std::int64_t classes, Layout layout,
                             SplitChoices choices)
    : layers_(std::move(layers)),
      classes_(classes),
      layout_(std::move(layout)),
      choices_(std::move(choices)),
      shape_(nn::Tile{at::Tensor(), input.tiling}),
      width_(input.channels),
      in_tiles_(input.in_tiles),
      has_gradient_(input.has_gradient) {
  add_all();
}

Between ParallelChain::output() const { return {shape_->tiling, width_, in_tiles_, has_gradient_}; }

void ParallelChain::add_all() {
  for (std::size_t i = 0; i < layers_.size(); ++i) add(i);
  if (is_flat_) need_rows();
  if (!costs_.empty()) costs_.back().forward += std::exchange(between_forward_, 0);
  for (const auto& [name, split] : choices_.layers)
    if (std::ranges::find(names_, name) == names_.end()) {
      std::string known;
      for (const std::string& each : names_) known += (known.empty() ? "" : ", ") + each;
      throw Error(Code::invalid, "parallel.layers: the network has no layer '" + name + "', but " + known);
    }
}

at::Tensor ParallelChain::forward(const at::Tensor& batch) {
  const Flow flow = pass(Flow{std::nullopt, batch});
  return flow.tile ? flow.tile->values : flow.values;
}

Flow ParallelChain::pass(Flow flow) {
  for (const auto& step : steps_) flow = step(std::move(flow));
  return flow;
}

void ParallelChain::refuse(const Layer& layer, const std::string& name, const std::string& why) const {
  std::string width;
  if (layer.kind == Kind::linear)
    width = " of " + std::to_string(layer.size > 0 ? layer.size : classes_) + " units";
  else if (layer.kind == Kind::conv)
    width = " of " + std::to_string(layer.size) + " filters";
  throw Error(Code::unsupported, layer.place + name + " (" + kind_name(layer) + width + ") cannot be split over mesh " +
                                     layout_.mesh + ": " + why);
}

std::string ParallelChain::next_name(const std::string& kind) {
  names_.push_back(kind + std::to_string(++numbers_[kind]));
  return names_.back();
}

Split ParallelChain::split_of(const std::string& name, const Layer& layer) {
  const auto found = choices_.layers.find(name);
  return found == choices_.layers.end() ? layer.split : found->second;
}

LayerCost& ParallelChain::begin(const std::string& name, Split split) {
  costs_.push_back({.layer = name,
                    .split = std::string(name_of(split)),
                    .forward = std::exchange(between_forward_, 0),
                    .backward = std::exchange(between_backward_, 0)});
  return costs_.back();
}

void ParallelChain::end(LayerCost& cost) {
  cost.outputs = width_;
  if (shape_) cost.outputs *= volume(space().box(shape_->tiling));
  if (parts_) cost.outputs = (*parts_)[layout_.tensor->rank()].size();
}

LayerCost& ParallelChain::begin_windows(const std::string& name, std::span<const Window> windows) {
  LayerCost& cost = begin(name, in_tiles_ ? Split::space : Split::replicate);
  const Tiling outputs = space().outputs(*shape_, windows, name);
  if (in_tiles_) cost.add_exchange(space().plan(shape_->tiling, windows, outputs), width_, has_gradient_);
  shape_->tiling = outputs;
  return cost;
}

void ParallelChain::into_tiles() {
  if (in_tiles_ || layout_.space.group()->size() == 1) return;
  in_tiles_ = true;
  const Tiling tiling = layout_.space.even(shape_->tiling.extents());
  const std::int64_t others = layout_.space.group()->size() - 1;
  if (has_gradient_) between_backward_ += others * width_ * volume(layout_.space.box(tiling));
  shape_ = nn::Tile{at::Tensor(), tiling};
  steps_.push_back([this, tiling](const Flow& flow) { return Flow{layout_.space.cut(flow.tile->values, tiling), {}}; });
}

void ParallelChain::bring_together() {
  if (!in_tiles_) return;
  between_forward_ += (layout_.space.group()->size() - 1) * width_ * volume(layout_.space.box(shape_->tiling));
  in_tiles_ = false;
  const Tiling whole = layout_.one.even(shape_->tiling.extents());
  shape_ = nn::Tile{at::Tensor(), whole};
  steps_.push_back([this, whole](const Flow& flow) {
    return Flow{nn::Tile{layout_.space.whole(*flow.tile), whole}, {}};
  });
}

void ParallelChain::need_rows() {
  if (shape_ && is_flat_) {
    bring_together();
    width_ *= volume(shape_->tiling.whole());
    shape_.reset();
    steps_.push_back([](const Flow& flow) { return Flow{std::nullopt, flow.tile->values.flatten(1)}; });
  }
  if (!parts_) return;
  between_forward_ += (*parts_)[layout_.tensor->rank()].size();
  steps_.push_back([this, cut = *parts_](const Flow& flow) {
    return Flow{std::nullopt, nn::gather_from(flow.values, -1, cut, layout_.tensor)};
  });
  parts_.reset();
}

void ParallelChain::place_images(const std::string& name, const Layer& layer) {
  if (!shape_ || is_flat_) refuse(layer, name, "it needs images, and here are rows of numbers: put it before flatten");
  const Split split = split_of(name, layer);
  if (split == Split::column || split == Split::row)
    refuse(layer, name, std::string(name_of(split)) + " is for dense layers: say space or replicate");
  has_image_layer_ = true;
  if (split == Split::space || (split == Split::automatic && prefers_tiles_))
    into_tiles();
  else
    bring_together();
}

void ParallelChain::add(std::size_t index) {
  const Layer& layer = layers_[index];
  if (const auto apply = element_wise(layer)) {
    if (!costs_.empty()) costs_.back().outputs *= 2;  // backward needs the output
    steps_.push_back([apply](Flow flow) {
      at::Tensor& values = flow.tile ? flow.tile->values : flow.values;
      values = apply(values);
      return flow;
    });
    return;
  }
  switch (layer.kind) {
    case Kind::conv: return add_conv(layer);
    case Kind::maxpool:
    case Kind::avgpool: return add_pool(layer);
    case Kind::batchnorm: return add_norm(layer);
    case Kind::gridpool: return add_grid(layer);
    case Kind::dropout: return add_dropout(layer);
    case Kind::flatten: return add_flatten(index);
    case Kind::linear: return add_linear(index);
    default: break;
  }
  need_rows();
  steps_.push_back([](const Flow& flow) { return Flow{std::nullopt, at::softmax(flow.values, 1)}; });
}

/// Returns the padding. Throws unless it is equal on both sides.
nn::Sizes ParallelChain::padding_of(const Layer& layer) const {
  if (!layer.same) return {layer.padding[0], layer.padding[1]};
  nn::Sizes padding;
  for (std::size_t d = 0; d < 2; ++d) {
    const std::int64_t in = shape_->tiling[d].extent(), out = (in + layer.stride[d] - 1) / layer.stride[d];
    const std::int64_t all = std::max<std::int64_t>((out - 1) * layer.stride[d] + layer.kernel[d] - in, 0);
    if (all % 2 != 0)
      refuse(layer, names_.back(), "padding=same would need one more row after than before: choose an odd kernel");
    padding.push_back(all / 2);
  }
  return padding;
}

/// The common options of convolutions and pools. Names the layer, and converts the images to the form it needs.
template <class Options>
Options ParallelChain::windowed(const char* kind, const Layer& layer) {
  Options options{.kernel = {layer.kernel[0], layer.kernel[1]}, .stride = {layer.stride[0], layer.stride[1]}};
  options.name = next_name(kind);
  place_images(options.name, layer);
  options.padding = padding_of(layer);
  return options;
}

void ParallelChain::add_conv(const Layer& layer) {
  auto options = windowed<nn::SpaceConvOptions>("conv", layer);
  options.groups = layer.groups;
  options.bias = layer.bias;
  options.seed = 1;  // the values are replaced by those of the sequential network
  const auto conv = register_module(options.name, nn::SpaceConv(width_, layer.size, space(), options));
  LayerCost& cost = begin_windows(options.name, conv->windows());
  cost.weights = weights_of(*conv);
  if (in_tiles_) cost.backward_once = cost.weights;
  width_ = layer.size;
  has_gradient_ = true;
  end(cost);
  slide(conv);
}

void ParallelChain::add_pool(const Layer& layer) {
  auto options = windowed<nn::SpacePoolOptions>("pool", layer);
  options.ceil = layer.ceil;
  options.count_include_pad = !layer.same;
  nn::SpacePool pool(layer.kind == Kind::maxpool ? nn::Pool::max : nn::Pool::average, space(), options);
  end(begin_windows(options.name, pool->windows()));
  slide(pool);
}

void ParallelChain::add_norm(const Layer& layer) {
  const std::string name = next_name("norm");
  if (is_flat_) {
    need_rows();
    const auto norm = register_module(
        name, nn::SyncBatchNorm(torch::nn::BatchNormOptions(width_).eps(layer.number).momentum(layer.momentum)));
    if (layout_.together) norm->connect(*layout_.together);
    steps_.push_back([norm](const Flow& flow) mutable { return Flow{std::nullopt, norm->forward(flow.values)}; });
    LayerCost& cost = begin(name, Split::replicate);
    cost.weights = weights_of(*norm);
    end(cost);
  } else {
    place_images(name, layer);
    const auto norm =
        register_module(name, nn::SpaceBatchNorm(width_, space(), layout_.together, layer.number, layer.momentum));
    slide(norm);
    LayerCost& cost = begin(name, in_tiles_ ? Split::space : Split::replicate);
    cost.weights = weights_of(*norm);
    if (in_tiles_) cost.forward_once = 2 * width_ + 1, cost.backward_once = 2 * width_ + cost.weights;
    end(cost);
  }
  has_gradient_ = true;
}

void ParallelChain::add_grid(const Layer& layer) {
  const std::string name = next_name("grid");
  if (!shape_) refuse(layer, name, "it needs images");
  const nn::Sizes extents = shape_->tiling.extents();
  const nn::Sizes grid{std::min(layer.kernel[0], extents[0]), std::min(layer.kernel[1], extents[1])};
  if (grid == extents) return;
  bring_together();
  prefers_tiles_ = false;
  shape_->tiling = layout_.one.even(grid);
  steps_.push_back([grid, tiling = shape_->tiling](const Flow& flow) {
    return Flow{nn::Tile{at::adaptive_avg_pool2d(flow.tile->values, grid), tiling}, {}};
  });
  end(begin(name, Split::replicate));
}

/// The noise is drawn for whole samples, the same on every rank, and each rank uses its part. So the result does not
/// depend on the mesh.
void ParallelChain::add_dropout(const Layer& layer) {
  if (layer.number == 0) return;
  if (!costs_.empty()) costs_.back().outputs *= 2;
  if (shape_ && in_tiles_) {
    steps_.push_back([this, rate = layer.number, tiling = shape_->tiling](Flow flow) {
      if (!is_training()) return flow;
      nn::Sizes sizes = flow.tile->values.sizes().slice(0, 2).vec();
      for (const std::int64_t side : tiling.extents()) sizes.push_back(side);
      const at::Tensor all = at::dropout(at::ones(sizes, flow.tile->values.options()), rate, true);
      flow.tile->values = flow.tile->values * nn::slice(all, tiling.whole(), layout_.space.box(tiling));
      return flow;
    });
  } else if (parts_) {
    steps_.push_back([this, rate = layer.number, cut = *parts_](Flow flow) {
      if (is_training()) flow.values = drop_part(flow.values, rate, 1, cut.extent(), cut[layout_.tensor->rank()]);
      return flow;
    });
  } else {
    steps_.push_back([this, rate = layer.number](Flow flow) {
      at::Tensor& values = flow.tile ? flow.tile->values : flow.values;
      values = at::dropout(values, rate, is_training());
      return flow;
    });
  }
}

void ParallelChain::add_flatten(std::size_t index) {
  if (is_flat_) return;
  is_flat_ = true;
  if (!shape_) {
    steps_.push_back([](const Flow& flow) { return Flow{std::nullopt, flow.values.flatten(1)}; });
    return;
  }
  for (std::size_t i = index + 1; i < layers_.size(); ++i) {
    if (element_wise(layers_[i]) || layers_[i].kind == Kind::dropout) continue;
    if (layers_[i].kind == Kind::linear && linear_split(i) == Split::space) return into_tiles();
    break;
  }
  need_rows();
}

}  // namespace tutti::engine
