// Models made of blocks with parallel paths: GoogLeNet and ResNets.
#include <ATen/ops/cat.h>
#include <ATen/ops/relu.h>

#include "engine/models/makers.hpp"

namespace tutti::engine::models {
namespace {

using Kind = Layer::Kind;
using Layers = std::vector<Layer>;
using ChainPtr = std::shared_ptr<Chain>;

/// A convolution, optionally followed by BatchNorm and ReLU.
struct Convolution {
  std::int64_t filters, kernel, stride = 1, padding = 0;
  bool rectified = true;
};

class Style {
 public:
  Style(bool normal, double eps) : normal_(normal), eps_(eps) {}
  Layers layers(const std::vector<Convolution>& convolutions) const {
    Layers layers;
    for (const Convolution& c : convolutions) {
      layers.push_back(conv_layer(c.filters, c.kernel, c.stride, c.padding, !normal_));
      if (normal_) layers.push_back(norm_layer(eps_));
      if (c.rectified) layers.push_back(plain_layer(Kind::relu));
    }
    return layers;
  }

 private:
  const bool normal_;
  const double eps_;
};

/// A stem, blocks in sequence, and a head.
class Blocks final : public torch::nn::Module {
 public:
  explicit Blocks(SampleShape input) : shape_(std::move(input)) {}

  void chain(const std::string& name, const Layers& layers, std::int64_t classes = 0) {
    const ChainPtr chain = register_module(name, std::make_shared<Chain>(shape_, layers, classes));
    shape_ = chain->shape();
    steps_.push_back([chain](const at::Tensor& x) { return chain->forward(x); });
  }
  template <class Block>
  void block(const std::string& name, const std::shared_ptr<Block>& block) {
    register_module(name, block);
    shape_ = block->shape();
    steps_.push_back([block](const at::Tensor& x) { return block->forward(x); });
  }
  at::Tensor forward(const at::Tensor& batch) {
    at::Tensor x = batch;
    for (const auto& step : steps_) x = step(x);
    return x;
  }
  const SampleShape& shape() const noexcept { return shape_; }

 private:
  SampleShape shape_;
  std::vector<std::function<at::Tensor(const at::Tensor&)>> steps_;
};

/// Parallel paths whose outputs are concatenated along the channels (Szegedy et al. 2015).
class Inception final : public torch::nn::Module {
 public:
  Inception(const SampleShape& input, const std::vector<Layers>& ways) {
    for (const Layers& way : ways) {
      ways_.push_back(
          register_module("way" + std::to_string(ways_.size() + 1), std::make_shared<Chain>(input, way, 0)));
      shape_[0] += ways_.back()->shape()[0];
    }
    shape_[1] = ways_[0]->shape()[1];
    shape_[2] = ways_[0]->shape()[2];
  }
  at::Tensor forward(const at::Tensor& x) {
    std::vector<at::Tensor> parts;
    for (const ChainPtr& way : ways_) parts.push_back(way->forward(x));
    return at::cat(parts, 1);
  }
  const SampleShape& shape() const noexcept { return shape_; }

 private:
  std::vector<ChainPtr> ways_;
  SampleShape shape_ = SampleShape(3);
};

/// A residual block (He et al. 2016); the shortcut is a convolution if the shape changes.
class Residual final : public torch::nn::Module {
 public:
  Residual(const SampleShape& input, const Layers& body, const Layers& shortcut)
      : body_(register_module("body", std::make_shared<Chain>(input, body, 0))) {
    if (!shortcut.empty()) shortcut_ = register_module("shortcut", std::make_shared<Chain>(input, shortcut, 0));
  }
  at::Tensor forward(const at::Tensor& x) {
    return at::relu(body_->forward(x).add(shortcut_ ? shortcut_->forward(x) : x));
  }
  const SampleShape& shape() const noexcept { return body_->shape(); }

 private:
  ChainPtr body_, shortcut_;
};

/// Numbers of filters of an inception block: of the 1x1 path, the 3x3 and 5x5 paths with their reductions, and after
/// the pooling.
struct InceptionSize {
  const char* name;
  double one, before_three, three, before_five, five, pooled;
};
constexpr InceptionSize googlenet[] = {
    {"3a", 64, 96, 128, 16, 32, 32},     {"3b", 128, 128, 192, 32, 96, 64},   {"4a", 192, 96, 208, 16, 48, 64},
    {"4b", 160, 112, 224, 24, 64, 64},   {"4c", 128, 128, 256, 24, 64, 64},   {"4d", 112, 144, 288, 32, 64, 64},
    {"4e", 256, 160, 320, 32, 128, 128}, {"5a", 256, 160, 320, 32, 128, 128}, {"5b", 384, 192, 384, 48, 128, 128},
};

bool is_small(const SampleShape& image) { return image[1] < 64 || image[2] < 64; }

/// Uses the paper's 5x5 convolutions; torchvision has 3x3 there. For images below 64 pixels the stem does not reduce
/// the size.
std::vector<BlockPlan> googlenet_blocks(const Request& request) {
  const Style style(request.options.flag("batchnorm"), 1e-3);
  const auto width = [&](double channels) { return request.scaled(channels); };
  const bool small = is_small(request.input);
  const Layer pool = pool_layer(Kind::maxpool, 3, 2, 0, true);
  Layers stem = style.layers({small ? Convolution{width(64), 3, 1, 1} : Convolution{width(64), 7, 2, 3}});
  if (!small) stem.push_back(pool);
  for (const Layer& each : style.layers({{width(64), 1}, {width(192), 3, 1, 1}})) stem.push_back(each);
  if (!small) stem.push_back(pool);
  std::vector<BlockPlan> blocks{{.name = "stem", .chains = {stem}}};
  for (const InceptionSize& size : googlenet) {
    const std::string name = size.name;
    if (name == "4a" || name == "5a") blocks.push_back({.name = "pool" + name.substr(0, 1), .chains = {{pool}}});
    Layers pooled{pool_layer(Kind::maxpool, 3, 1, 1)};
    for (const Layer& each : style.layers({{width(size.pooled), 1}})) pooled.push_back(each);
    blocks.push_back({.kind = BlockPlan::Kind::side_by_side,
                      .name = "inception" + name,
                      .chains = {style.layers({{width(size.one), 1}}),
                                 style.layers({{width(size.before_three), 1}, {width(size.three), 3, 1, 1}}),
                                 style.layers({{width(size.before_five), 1}, {width(size.five), 5, 1, 2}}), pooled}});
  }
  blocks.push_back({.name = "head",
                    .chains = {{grid_layer(1), plain_layer(Kind::flatten),
                                dropout_layer(request.options.number("dropout")), linear_layer(0)}}});
  return blocks;
}

/// In a bottleneck the 3x3 convolution has the stride, as in torchvision. Images below 64 pixels get the paper's stem
/// for CIFAR-10: 3x3, without pooling.
std::vector<BlockPlan> resnet_blocks(const Request& request) {
  const bool deep = request.options.choice().name == "resnet50";
  const Style style(true, 1e-5);
  std::int64_t channels = request.scaled(64);
  Layers stem =
      style.layers({is_small(request.input) ? Convolution{channels, 3, 1, 1} : Convolution{channels, 7, 2, 3}});
  if (!is_small(request.input)) stem.push_back(pool_layer(Kind::maxpool, 3, 2, 1));
  std::vector<BlockPlan> blocks{{.name = "stem", .chains = {stem}}};
  const std::array<int, 4> depths = deep ? std::array{3, 4, 6, 3} : std::array{2, 2, 2, 2};
  for (std::size_t stage = 0; stage < depths.size(); ++stage)
    for (int i = 0; i < depths[stage]; ++i) {
      const std::int64_t inner = request.scaled(64 << stage), outer = deep ? 4 * inner : inner;
      const std::int64_t stride = stage > 0 && i == 0 ? 2 : 1;
      const std::vector<Convolution> body =
          deep ? std::vector<Convolution>{{inner, 1}, {inner, 3, stride, 1}, {outer, 1, 1, 0, false}}
               : std::vector<Convolution>{{inner, 3, stride, 1}, {inner, 3, 1, 1, false}};
      BlockPlan block{.kind = BlockPlan::Kind::residual,
                      .name = "block" + std::to_string(stage + 1) + "_" + std::to_string(i + 1),
                      .chains = {style.layers(body)}};
      if (stride != 1 || channels != outer) block.chains.push_back(style.layers({{outer, 1, stride, 0, false}}));
      channels = outer;
      blocks.push_back(std::move(block));
    }
  blocks.push_back({.name = "head", .chains = {{grid_layer(1), plain_layer(Kind::flatten), linear_layer(0)}}});
  return blocks;
}

}  // namespace

std::vector<BlockPlan> blocks_of(const Request& request) {
  const std::string_view name = request.options.choice().name;
  if (name == "googlenet") return googlenet_blocks(request);
  return name.starts_with("resnet") ? resnet_blocks(request) : std::vector<BlockPlan>{};
}

Made make_blocks(const Request& request) {
  auto net = std::make_shared<Blocks>(request.input);
  for (const BlockPlan& plan : blocks_of(request)) {
    const std::vector<Layers>& chains = plan.chains;
    if (plan.kind == BlockPlan::Kind::chain)
      net->chain(plan.name, chains[0], request.classes);
    else if (plan.kind == BlockPlan::Kind::side_by_side)
      net->block(plan.name, std::make_shared<Inception>(net->shape(), chains));
    else
      net->block(plan.name,
                 std::make_shared<Residual>(net->shape(), chains[0], chains.size() > 1 ? chains[1] : Layers{}));
  }
  // With fan-out, outputs of a 1x1 convolution with few filters grow with each layer unless they are normalised.
  const bool grows = request.options.choice().name == "googlenet" && !request.options.flag("batchnorm");
  initialise_convolutions(*net, grows ? Fan::in : Fan::out);
  return made(net);
}

}  // namespace tutti::engine::models
