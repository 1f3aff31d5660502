// The losses that can be chosen by name: plain text, without LibTorch.
#include <algorithm>

#include "engine/losses.hpp"
#include "transports/core/status.hpp"

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
bool has_word(std::string_view words, std::string_view word) {
  for (std::size_t at = 0; at < words.size();) {
    const std::size_t end = std::min(words.find(' ', at), words.size());
    if (words.substr(at, end - at) == word) return true;
    at = end + 1;
  }
  return false;
}

}  // namespace

std::span<const LossInfo> loss_table() noexcept { return infos; }

const LossInfo& loss_info(std::string_view name) {
  std::string known;
  for (const LossInfo& info : infos) {
    if (info.name == name || has_word(info.aliases, name)) return info;
    known += (known.empty() ? "" : ", ") + std::string(info.name);
  }
  throw Error(Code::invalid, "loss=" + std::string(name) + ": expected one of " + known);
}

}  // namespace tutti::engine
