// The optimizers that can be chosen by name, and their options: plain text, without LibTorch.
#pragma once

#include <span>

#include "engine/options.hpp"

namespace tutti::engine {

/// Formulas and standard values are torch.optim's where it has the rule, else those of the paper: LARS (You, Gitman and
/// Ginsburg 2017), LAMB (You et al. 2019), Lion (Chen et al. 2023), Muon (Jordan et al. 2024; standard values as
/// torch.optim.Muon). The entry `lr` is what holds until set_learning_rate().
std::span<const ChoiceInfo> optimizer_table() noexcept;

}  // namespace tutti::engine
