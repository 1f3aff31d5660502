// The table of optimizers with their options. Plain text, without LibTorch.
#pragma once

#include <span>

#include "engine/options.hpp"

namespace tutti::engine {

/// Formulas and defaults are those of torch.optim if it has the rule, else those of the paper: LARS (You, Gitman and
/// Ginsburg 2017), LAMB (You et al. 2019), Lion (Chen et al. 2023), Muon (Jordan et al. 2024, with the defaults of
/// torch.optim.Muon). The option `lr` applies until set_learning_rate() is called.
std::span<const ChoiceInfo> optimizer_table() noexcept;

}  // namespace tutti::engine
