#include "engine/exchange/table.hpp"

namespace tutti::engine {
namespace {

using Kind = OptionInfo::Kind;

constexpr OptionInfo scale(std::string_view value) {
  return {"scale_lr", Kind::flag, value, "multiply the learning rate by the number of ranks"};
}
constexpr OptionInfo gradients[] = {
    {"compression", Kind::text, "none", "what they become on their way: none, f16, bf16, top_k or power_sgd"},
    {"top_k", Kind::number, "0.01",
     "top_k: the part of a bucket's numbers that is sent, the largest; above 0, at most 1"},
    {"power_rank", Kind::whole, "2", "power_sgd: columns of the two matrices that a gradient becomes", 1},
    {"least_saving", Kind::number, "1", "power_sgd: what would not become so many times smaller goes as it is", 0},
    {"reorder", Kind::flag, "true", "fill buckets anew, after the first step, as gradients become ready"},
};
constexpr OptionInfo parameters[] = {scale("false")};
constexpr OptionInfo avg[] = {scale("true")};
constexpr OptionInfo cdd[] = {{"mean", Kind::flag, "false", "divide the sum by the number of ranks"}};

constexpr ChoiceInfo table[] = {
    {"gradients", "the mean of the gradients, in every step", gradients},
    {"parameters", "the mean of the parameters, after every sync.every steps of a rank's own", parameters},
    {"avg", "the same as parameters, at a larger learning rate", avg},
    {"cdd", "the sum of the updates of sync.every steps, applied at the next step", cdd},
};

}  // namespace

std::span<const ChoiceInfo> exchange_table() noexcept { return table; }

}  // namespace tutti::engine
