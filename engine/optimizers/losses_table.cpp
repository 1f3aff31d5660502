// The table of losses. Plain text, without LibTorch.
#include <algorithm>

#include "engine/config/options.hpp"
#include "engine/optimizers/losses.hpp"

namespace tutti::engine {
namespace {

constexpr LossInfo infos[] = {
    {"cross_entropy", "of scores and the class", "categorical_crossentropy sparse_categorical_crossentropy", true},
    {"nll", "of log-probabilities and the class", "negative_log_likelihood", true},
    {"mse", "mean squared error", "mean_squared_error", false},
    {"l1", "mean absolute error", "mae mean_absolute_error", false},
    {"smooth_l1", "squared near 0, absolute beyond 1", "huber", false},
    {"bce", "binary cross-entropy of probabilities", "binary_crossentropy", false},
    {"bce_logits", "binary cross-entropy of scores", "bce_with_logits", false},
};

}  // namespace

std::span<const LossInfo> loss_table() noexcept { return infos; }

const LossInfo& loss_info(std::string_view name) {
  std::string known;
  for (const LossInfo& info : infos) {
    const auto aliases = words(info.aliases);
    if (info.name == name || std::ranges::find(aliases, name) != aliases.end()) return info;
    known += (known.empty() ? "" : ", ") + std::string(info.name);
  }
  refuse("loss=" + std::string(name) + ": expected one of " + known);
}

}  // namespace tutti::engine
