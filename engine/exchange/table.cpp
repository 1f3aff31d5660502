#include "engine/exchange/table.hpp"

namespace tutti::engine {
namespace {

using Kind = OptionInfo::Kind;

constexpr OptionInfo scale(std::string_view value) {
  return {"scale_lr", Kind::flag, value, "multiply the learning rate by the number of ranks"};
}
constexpr OptionInfo parameters[] = {scale("false")};
constexpr OptionInfo avg[] = {scale("true")};
constexpr OptionInfo cdd[] = {{"mean", Kind::flag, "false", "divide the sum by the number of ranks"}};

constexpr ChoiceInfo table[] = {
    {"gradients", "the mean of the gradients, in every step", {}},
    {"parameters", "the mean of the parameters, after every sync.every steps of a rank's own", parameters},
    {"avg", "the same as parameters, at a larger learning rate", avg},
    {"cdd", "the sum of the updates of sync.every steps, applied at the next step", cdd},
};

}  // namespace

std::span<const ChoiceInfo> exchange_table() noexcept { return table; }

}  // namespace tutti::engine
