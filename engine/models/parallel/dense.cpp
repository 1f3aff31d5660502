// The dense layers of a ParallelChain: how each is split, and the form of its input.
#include <torch/nn/modules/linear.h>

#include <algorithm>

#include "engine/models/parallel/chain.hpp"
#include "nn/parallel/linear.hpp"
#include "nn/parallel/space_layers.hpp"

namespace tutti::engine {

using Kind = Layer::Kind;

/// True if layer `index` is wide enough to be split, and the next layer other than element-wise ones and dropout is
/// dense.
bool ParallelChain::is_paired(std::size_t index) const {
  const Layer& low = layers_[index];
  if (layout_.tensor->size() == 1 || low.size < layout_.tensor->size()) return false;
  for (std::size_t i = index + 1; i < layers_.size(); ++i)
    if (!element_wise(layers_[i]) && layers_[i].kind != Kind::dropout) return layers_[i].kind == Kind::linear;
  return false;
}

/// How the next dense layer, layers_[index], is split.
Split ParallelChain::linear_split(std::size_t index) const {
  const auto number = numbers_.find("fc");
  const auto found = choices_.layers.find("fc" + std::to_string(number == numbers_.end() ? 1 : number->second + 1));
  Split split = found == choices_.layers.end() ? layers_[index].split : found->second;
  if (split == Split::automatic) split = choices_.dense;
  if (split != Split::automatic) return split;
  if (shape_ && layout_.tensor->size() == 1 && layout_.space.group()->size() > 1) return Split::space;
  if (parts_) return Split::row;
  return is_paired(index) ? Split::column : Split::replicate;
}

void ParallelChain::add_linear(std::size_t index) {
  const Layer& layer = layers_[index];
  const Split split = linear_split(index);
  const std::string name = next_name("fc");
  if (!is_flat_) refuse(layer, name, "images come before it: put flatten in between");
  if (choices_.images_first && !has_image_layer_)
    refuse(layer, name,
           "no layer of images comes before it: begin with a convolution or a pool, or take parallel=vecpar");
  const std::int64_t units = layer.size > 0 ? layer.size : classes_;
  if (split == Split::space)
    add_head(layer, name, units);
  else
    add_dense(layer, name, units, split);
  has_gradient_ = true;
}

void ParallelChain::add_head(const Layer& layer, const std::string& name, std::int64_t units) {
  if (!shape_) refuse(layer, name, "space is for the dense layer right behind images: say column, row or replicate");
  LayerCost& cost = begin(name, Split::space);
  const auto head =
      register_module(name, nn::SpaceHead(width_, shape_->tiling, units, space(),
                                          nn::SpaceHeadOptions{.bias = layer.bias, .seed = 1, .name = name}));
  steps_.push_back([head](const Flow& flow) mutable { return Flow{std::nullopt, head->forward(*flow.tile)}; });
  cost.weights = weights_of(*head);
  if (in_tiles_) cost.forward += units;
  in_tiles_ = false;
  shape_.reset();
  width_ = units;
  end(cost);
}

void ParallelChain::add_dense(const Layer& layer, const std::string& name, std::int64_t units, Split split) {
  const nn::Group& tensor = layout_.tensor;
  const nn::ParallelLinearOptions options{.bias = layer.bias, .seed = 1, .name = name};
  const bool reads_parts = split == Split::row && parts_ && parts_->extent() == width_;
  if (!reads_parts) need_rows();
  LayerCost& cost = begin(name, split);
  const auto step = [&](const auto& made) {
    cost.weights = weights_of(*made);
    steps_.push_back([made](const Flow& flow) mutable { return Flow{std::nullopt, made->forward(flow.values)}; });
  };
  if (split == Split::row) {
    const nn::RowParallelLinear row(width_, units, tensor, options);
    if (tensor->size() > 1) cost.forward += units;
    if (tensor->size() > 1 && !reads_parts && has_gradient_) cost.backward += row->cut()[tensor->rank()].size();
    parts_.reset();
    step(register_module(name, row));
  } else if (split == Split::column) {
    const nn::ColumnParallelLinear column(width_, units, tensor, options);
    if (tensor->size() > 1 && has_gradient_) cost.backward += width_;
    if (tensor->size() > 1) parts_ = column->cut();
    step(register_module(name, column));
  } else {
    step(register_module(name, torch::nn::Linear(torch::nn::LinearOptions(width_, units).bias(layer.bias))));
  }
  width_ = units;
  end(cost);
}

}  // namespace tutti::engine
