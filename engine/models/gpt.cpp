// A transformer that predicts the next token, as GPT-2 is built (Radford et al. 2019).
#include <ATen/ops/arange.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/full.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/softmax.h>
#include <torch/version.h>
#if TORCH_VERSION_MAJOR >= 2
#include <ATen/ops/scaled_dot_product_attention.h>
#endif
#include <torch/nn/init.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include <cmath>
#include <limits>

#include "engine/models/makers.hpp"

namespace tutti::engine::models {

at::Tensor causal_attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, double dropout) {
#if TORCH_VERSION_MAJOR >= 2
  return at::scaled_dot_product_attention(query, key, value, std::nullopt, dropout, true);
#else
  const std::int64_t positions = query.size(2);
  const at::Tensor later =
      at::full({positions, positions}, -std::numeric_limits<double>::infinity(), query.options().requires_grad(false));
  const double scale = 1 / std::sqrt(static_cast<double>(query.size(3)));
  const at::Tensor scores = query.matmul(key.transpose(2, 3)).mul(scale).add(later.triu(1));
  return at::dropout(at::softmax(scores, 3), dropout, dropout > 0).matmul(value);
#endif
}

namespace {

using torch::nn::Embedding;
using torch::nn::LayerNorm;
using torch::nn::LayerNormOptions;
using torch::nn::Linear;

/// A pre-norm transformer block: causal attention and two dense layers, each with a residual connection.
class Block final : public torch::nn::Module {
 public:
  Block(std::int64_t width, std::int64_t heads, double dropout) : heads_(heads), dropout_(dropout) {
    norm1_ = register_module("norm1", LayerNorm(LayerNormOptions({width})));
    query_key_value_ = register_module("query_key_value", Linear(width, 3 * width));
    projection_ = register_module("projection", Linear(width, width));
    norm2_ = register_module("norm2", LayerNorm(LayerNormOptions({width})));
    fc1_ = register_module("fc1", Linear(width, 4 * width));
    fc2_ = register_module("fc2", Linear(4 * width, width));
  }

  at::Tensor forward(const at::Tensor& input) {
    const at::Tensor x = input.add(drop(attend(norm1_->forward(input))));
    return x.add(drop(fc2_->forward(at::gelu(fc1_->forward(norm2_->forward(x))))));
  }

  /// Scales the initial weights of the residual projections by 1 / sqrt(2 blocks), as GPT-2 does.
  void initialise(std::int64_t blocks) {
    const double deviation = 0.02 / std::sqrt(2 * static_cast<double>(blocks));
    torch::nn::init::normal_(projection_->weight, 0, deviation);
    torch::nn::init::normal_(fc2_->weight, 0, deviation);
  }

 private:
  at::Tensor drop(const at::Tensor& x) { return dropout_ > 0 ? at::dropout(x, dropout_, is_training()) : x; }

  at::Tensor attend(const at::Tensor& x) {  // (samples, positions, width)
    const std::int64_t samples = x.size(0), positions = x.size(1), width = x.size(2), each = width / heads_;
    const std::vector<at::Tensor> parts = query_key_value_->forward(x).split(width, 2);
    const auto by_head = [&](const at::Tensor& part) {
      return part.view({samples, positions, heads_, each}).transpose(1, 2);
    };
    const at::Tensor seen =
        causal_attention(by_head(parts[0]), by_head(parts[1]), by_head(parts[2]), is_training() ? dropout_ : 0);
    return projection_->forward(seen.transpose(1, 2).reshape({samples, positions, width}));
  }

  const std::int64_t heads_;
  const double dropout_;
  LayerNorm norm1_{nullptr}, norm2_{nullptr};
  Linear query_key_value_{nullptr}, projection_{nullptr}, fc1_{nullptr}, fc2_{nullptr};
};

class Gpt final : public torch::nn::Module {
 public:
  explicit Gpt(const Request& request)
      : context_(request.input[0]), tied_(request.options.flag("tie")), dropout_(request.options.number("dropout")) {
    const std::int64_t width = request.options.whole("embedding"), heads = request.options.whole("heads");
    const std::int64_t blocks = request.options.whole("layers");
    if (width % heads != 0)
      refuse("embedding=" + std::to_string(width) + " is not a multiple of heads=" + std::to_string(heads) +
             ": change one of them");
    tokens_ = register_module("token_embedding", Embedding(request.classes, width));
    positions_ = register_module("position_embedding", Embedding(context_, width));
    for (std::int64_t i = 0; i < blocks; ++i)
      blocks_.push_back(
          register_module("block" + std::to_string(i + 1), std::make_shared<Block>(width, heads, dropout_)));
    norm_ = register_module("norm", LayerNorm(LayerNormOptions({width})));
    if (!tied_) head_ = register_module("head", Linear(torch::nn::LinearOptions(width, request.classes).bias(false)));
    initialise();
  }

  at::Tensor forward(const at::Tensor& tokens) {
    const std::int64_t length = tokens.size(1);
    if (length > context_)
      refuse("gpt: " + std::to_string(length) + " tokens, and the context is " + std::to_string(context_) +
             ": give shorter samples or make it longer");
    at::Tensor x =
        tokens_->forward(tokens).add(positions_->forward(at::arange(length, tokens.options().dtype(at::kLong))));
    if (dropout_ > 0) x = at::dropout(x, dropout_, is_training());
    for (const auto& block : blocks_) x = block->forward(x);
    return at::linear(norm_->forward(x), tied_ ? tokens_->weight : head_->weight);
  }

 private:
  void initialise() {
    for (const auto& parameter : named_parameters()) {
      if (parameter.value().dim() > 1)
        torch::nn::init::normal_(parameter.value(), 0, 0.02);
      else if (parameter.key().ends_with("bias"))
        torch::nn::init::zeros_(parameter.value());
    }
    for (const auto& block : blocks_) block->initialise(static_cast<std::int64_t>(blocks_.size()));
  }

  const std::int64_t context_;
  const bool tied_;
  const double dropout_;
  Embedding tokens_{nullptr}, positions_{nullptr};
  std::vector<std::shared_ptr<Block>> blocks_;
  LayerNorm norm_{nullptr};
  Linear head_{nullptr};
};

}  // namespace

Made make_gpt(const Request& request) { return made(std::make_shared<Gpt>(request)); }

}  // namespace tutti::engine::models
