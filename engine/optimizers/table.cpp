// The tables of optimizers with their options, and of losses. This file does not use LibTorch.
#include <algorithm>

#include "engine/config/tables.hpp"
#include "engine/optimizers/losses.hpp"

namespace tutti::engine {
namespace {

using Kind = OptionInfo::Kind;
using Output = LossInfo::Output;

constexpr OptionInfo lr(std::string_view value) { return {"lr", Kind::number, value, "learning rate"}; }
constexpr OptionInfo decay(std::string_view value) {
  return {"weight_decay", Kind::number, value, "times the parameter, added to its gradient"};
}
constexpr OptionInfo decoupled(std::string_view value) {
  return {"weight_decay", Kind::number, value, "times the learning rate: the part of itself that a parameter loses"};
}
constexpr OptionInfo momentum(std::string_view value) {
  return {"momentum", Kind::number, value, "what is kept of the past", 0, 1};
}
constexpr OptionInfo beta1(std::string_view value) {
  return {"beta1", Kind::number, value, "what is kept of past gradients", 0, 1};
}
constexpr OptionInfo beta2(std::string_view value) {
  return {"beta2", Kind::number, value, "what is kept of their squares", 0, 1};
}
constexpr OptionInfo eps(std::string_view value) { return {"eps", Kind::number, value, "added to what is divided by"}; }
constexpr OptionInfo amsgrad{"amsgrad", Kind::flag, "false", "divide by the largest second moment so far"};
constexpr OptionInfo vectors{"adapt_vectors", Kind::flag, "true", "adapt biases and other vectors too"};

constexpr OptionInfo sgd[] = {lr("0.01"), decay("0")};
constexpr OptionInfo heavy_ball[] = {
    lr("0.01"), momentum("0.9"), {"dampening", Kind::number, "0", "what is left out of a gradient", 0, 1}, decay("0")};
constexpr OptionInfo nesterov[] = {lr("0.01"), momentum("0.9"), decay("0")};
constexpr OptionInfo adam[] = {lr("0.001"), beta1("0.9"), beta2("0.999"), eps("1e-8"), decay("0"), amsgrad};
constexpr OptionInfo adamw[] = {lr("0.001"), beta1("0.9"), beta2("0.999"), eps("1e-8"), decoupled("0.01"), amsgrad};
constexpr OptionInfo adagrad[] = {lr("0.01"),
                                  {"lr_decay", Kind::number, "0", "the learning rate falls by 1 / (1 + step * this)"},
                                  {"initial", Kind::number, "0", "the sum of squares begins with it"},
                                  eps("1e-10"),
                                  decay("0")};
constexpr OptionInfo adadelta[] = {
    lr("1"), {"rho", Kind::number, "0.9", "what is kept of past squares", 0, 1}, eps("1e-6"), decay("0")};
constexpr OptionInfo rmsprop[] = {
    lr("0.01"),
    {"alpha", Kind::number, "0.99", "what is kept of past squares", 0, 1},
    eps("1e-8"),
    momentum("0"),
    {"centered", Kind::flag, "false", "divide by the deviation, not by the square's root"},
    decay("0")};
constexpr OptionInfo lars[] = {lr("0.1"),
                               momentum("0.9"),
                               {"trust", Kind::number, "0.001", "the part of its norm that a layer moves by"},
                               decay("0.0005"),
                               vectors};
constexpr OptionInfo lamb[] = {lr("0.001"), beta1("0.9"), beta2("0.999"), eps("1e-6"), decoupled("0.01"), vectors};
constexpr OptionInfo lion[] = {lr("0.0001"),
                               {"beta1", Kind::number, "0.9", "what the sign keeps of past gradients", 0, 1},
                               {"beta2", Kind::number, "0.99", "what the momentum keeps of them", 0, 1},
                               decoupled("0")};
constexpr OptionInfo muon[] = {
    lr("0.001"),
    momentum("0.95"),
    {"nesterov", Kind::flag, "true", "look ahead along the momentum"},
    {"iterations", Kind::whole, "5", "of Newton-Schulz"},
    {"match_rms", Kind::flag, "false",
     "scale by 0.2 sqrt(larger side), as AdamW moves, not sqrt(max(1, rows / columns))"},
    decoupled("0.1"),
    {"adam_names", Kind::text, "embedding,head", "matrices with one of these in their names are AdamW's too"},
    {"adam_lr_factor", Kind::number, "1", "AdamW's learning rate, in those of the matrices"},
    beta1("0.9"),
    beta2("0.95"),
    eps("1e-10")};

constexpr ChoiceInfo table[] = {
    {"sgd", "the gradient", sgd},
    {"momentum", "SGD with heavy-ball momentum", heavy_ball},
    {"nesterov", "SGD with Nesterov's momentum", nesterov},
    {"adam", "first and second moments; decay in the gradient", adam},
    {"adamw", "Adam with decay of its own", adamw},
    {"adagrad", "divided by the root of all squares so far", adagrad},
    {"adadelta", "in units of past updates", adadelta},
    {"rmsprop", "divided by the root of recent squares", rmsprop},
    {"lars", "momentum, at each layer's own rate", lars},
    {"lamb", "AdamW, at each layer's own rate", lamb},
    {"lion", "the sign of the momentum", lion},
    {"muon", "orthogonal momentum for matrices, AdamW for the rest", muon},
};

constexpr LossInfo losses[] = {
    {"cross_entropy", "of scores and the class", "categorical_crossentropy sparse_categorical_crossentropy",
     Output::scores},
    {"nll", "of log-probabilities and the class", "negative_log_likelihood", Output::log_probabilities},
    {"mse", "mean squared error", "mean_squared_error", Output::numbers},
    {"l1", "mean absolute error", "mae mean_absolute_error", Output::numbers},
    {"smooth_l1", "squared near 0, absolute beyond 1", "huber", Output::numbers},
    {"bce", "binary cross-entropy of probabilities", "binary_crossentropy", Output::probabilities},
    {"bce_logits", "binary cross-entropy of scores", "bce_with_logits", Output::binary_scores},
};

}  // namespace

std::span<const ChoiceInfo> optimizer_table() noexcept { return table; }

std::span<const LossInfo> loss_table() noexcept { return losses; }

const LossInfo& loss_info(std::string_view name) {
  std::string known;
  for (const LossInfo& info : losses) {
    const auto aliases = words(info.aliases);
    if (info.name == name || std::ranges::find(aliases, name) != aliases.end()) return info;
    known += (known.empty() ? "" : ", ") + std::string(info.name);
  }
  refuse("loss=" + std::string(name) + ": expected one of " + known);
}

}  // namespace tutti::engine
