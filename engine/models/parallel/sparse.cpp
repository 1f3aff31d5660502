#include "engine/models/parallel/sparse.hpp"

#include <ATen/Functions.h>
#include <torch/utils.h>

#include <algorithm>

#include "nn/parallel/placement.hpp"
#include "tutti/status.hpp"

namespace tutti::engine {
namespace {

/// Draws a seed from LibTorch's generator, which make_model() seeds.
std::uint64_t draw_seed() {
  return static_cast<std::uint64_t>(at::randint(1 << 30, {1}, at::kLong).item<std::int64_t>());
}

/// Sums over all dimensions but the samples.
at::Tensor by_sample(const at::Tensor& values) { return values.flatten(1).sum(1); }

}  // namespace

SparseTower::SparseTower(const models::Request& request, const Layout& layout, const SplitChoices& choices)
    : space_(layout.space), kernel_(request.options.whole("kernel")) {
  if (layout.tensor->size() > 1 || !choices.layers.empty())
    throw Error(Code::unsupported, "model=sparse cannot be split over mesh " + layout.mesh +
                                       " so: its layers are in tiles alone, along height and width");
  const std::int64_t pool = request.options.whole("pool"), stride = request.options.whole("stride");
  contrast_ = register_module(
      "contrast", nn::SpaceLcn(space_, nn::LcnOptions{.size = request.options.whole("contrast"), .name = "contrast"}));
  nn::Tile tile{at::Tensor(), space_.even(std::span(request.input).last(2))};
  channels_.push_back(request.input[0]);
  const auto volume_here = [&](const nn::Tile& each) { return volume(space_.box(each.tiling)); };
  for (const std::int64_t filters : request.options.sizes("filters")) {
    const std::size_t number = filters_.size();
    const std::string name = "filter" + std::to_string(number + 1);
    inputs_.push_back(tile);
    channels_.push_back(filters);
    filters_.push_back(register_module(
        name, nn::SpaceLocalFilter(channels_[number], filters, tile.tiling.extents(), space_, filter_options(number))));
    nn::SpacePoolOptions options{.kernel = {pool}, .stride = {stride}};
    options.name = "pool" + std::to_string(number + 1);
    pools_.push_back(register_module(options.name, nn::SpacePool(nn::Pool::l2, space_, options)));
    LayerCost& cost = costs_.emplace_back();
    cost.layer = name, cost.split = "space", cost.weights = weights_of(*filters_.back());
    const auto slide = [&](const std::string& layer, const std::vector<Window>& windows, std::int64_t channels,
                           bool has_gradient) {
      const Tiling outputs = space_.outputs(tile, windows, layer);
      cost.add_exchange(space_.plan(tile.tiling, windows, outputs), channels, has_gradient);
      tile.tiling = outputs;
      cost.outputs += filters * volume_here(tile);
    };
    slide(name, std::vector<Window>(2, Window{.size = kernel_}), channels_[number], number > 0);
    slide(options.name, pools_.back()->windows(), filters, true);
    const std::int64_t size = request.options.whole("contrast"), after = (size - 1) / 2;
    const std::vector<Window> blur(2, Window{.size = size, .low = size - 1 - after, .high = after});
    slide("contrast", blur, filters, true), slide("contrast", blur, filters, true);
  }
  head_ = register_module("head", nn::SpaceHead(channels_.back(), tile.tiling, request.classes, space_,
                                                nn::SpaceHeadOptions{.seed = draw_seed(), .name = "head"}));
  costs_.push_back({.layer = "head",
                    .split = "space",
                    .forward = space_.group()->size() > 1 ? request.classes : 0,
                    .weights = weights_of(*head_),
                    .outputs = request.classes});
  normalise();
}

nn::LocalFilterOptions SparseTower::filter_options(std::size_t stage) const {
  return {.kernel = {kernel_}, .seed = draw_seed(), .name = "filter" + std::to_string(stage + 1)};
}

nn::SpaceLocalFilter SparseTower::copy_of(std::size_t stage) const {
  const torch::NoGradGuard no_grad;
  nn::SpaceLocalFilter copy(channels_[stage], channels_[stage + 1], inputs_[stage].tiling.extents(), space_,
                            nn::LocalFilterOptions{.kernel = {kernel_}, .seed = 1, .name = "decoder"});
  copy->to(filters_[stage]->weight.scalar_type());
  copy->weight.copy_(filters_[stage]->weight);
  return copy;
}

nn::Tile SparseTower::stage(std::size_t number, const nn::Tile& tile) {
  return contrast_->forward(pools_[number]->forward(filters_[number]->forward(tile)));
}

at::Tensor SparseTower::forward(const at::Tensor& images) {
  nn::Tile tile = space_.cut(images);
  for (std::size_t i = 0; i < filters_.size(); ++i) tile = stage(i, tile);
  return head_->forward(tile);
}

at::Tensor SparseTower::cost(std::size_t number, nn::SpaceLocalFilter decoder, double sparsity,
                             const at::Tensor& images) {
  nn::Tile tile = space_.cut(images);
  {
    const torch::NoGradGuard no_grad;  // earlier stages are trained already
    for (std::size_t i = 0; i < number; ++i) tile = stage(i, tile);
  }
  const nn::Tile seen = filters_[number]->forward(tile);
  const at::Tensor error = decoder->backwards(seen).values - tile.values;
  const at::Tensor pooled = pools_[number]->forward(seen).values;
  return nn::reduce_from(by_sample(error * error) / 2 + sparsity * by_sample(pooled), space_.group());
}

void SparseTower::normalise() {
  for (const nn::SpaceLocalFilter& each : filters_) nn::SpaceLocalFilter(each)->normalise_filters();
}

namespace models {

std::function<void()> filters_of_length_1(const std::shared_ptr<torch::nn::Module>& tower) {
  return [raw = dynamic_cast<SparseTower*>(tower.get())] { raw->normalise(); };
}

Made make_sparse(const Request& request) {
  Made found = made(std::make_shared<SparseTower>(request, planned_layout({{"data", 1}}, 0), SplitChoices{}));
  found.after_update = filters_of_length_1(found.module);
  return found;
}

}  // namespace models

}  // namespace tutti::engine
