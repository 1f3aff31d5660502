// The tables of names and options that the configuration takes from models/, optimizers/ and strategies/. Each of them
// defines its own, so that a new entry is known to files, arguments, help and book at once.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "engine/config/options.hpp"

namespace tutti::engine {

/// In engine/models/table.cpp.
std::span<const ChoiceInfo> model_table() noexcept;

/// In engine/optimizers/table.cpp. Formulas and defaults are those of torch.optim if it has the rule, else those of the
/// paper: LARS (You, Gitman and Ginsburg 2017), LAMB (You et al. 2019), Lion (Chen et al. 2023), Muon (Jordan et al.
/// 2024, with the defaults of torch.optim.Muon). The option `lr` applies until set_learning_rate() is called.
std::span<const ChoiceInfo> optimizer_table() noexcept;

/// In engine/optimizers/schedules.cpp: the schedules and the factor that each multiplies the learning rate by:
///   constant      1
///   step          gamma^(number of `milestones` reached); with every=n: gamma^floor(epoch / n)
///   poly          (1 - t)^power, with t from 0 after the warm-up to 1 at the last step
///   cosine        (1 + cos(pi t)) / 2, with the same t (Loshchilov and Hutter 2017, without restarts)
///   exponential   gamma^(epochs / every)
///   inverse_time  1 / (1 + decay epochs / every)
///   root_product  the product of sqrt(1 - i / span) for i from `first` to the epoch (GoogLeNet in Theano-MPI)
///   one_cycle     from 1 / divide up to 1 and down to 1 / (divide divide_end) (Smith and Topin 2018)
///   plateau       `factor` to the power of how often the validation error has stopped falling
///   auto          1 / `divide` to the power of how often the validation error improved too little
/// poly and cosine end at the option `end` instead of 0.
std::span<const ChoiceInfo> schedule_table() noexcept;

/// In engine/strategies/presets.cpp: all presets, each with all axes as options.
std::span<const ChoiceInfo> strategy_table();
/// The options that all presets have, with the defaults of bsp.
std::span<const OptionInfo> shared_axes();
/// The canonical form of a preset's name: lower case, with `-` for `_`. "sgd" is "downpour".
std::string preset_name(std::string_view given);

/// A key with `_` for `-`: keys and flags may be spelled with either.
std::string plain_key(std::string_view key);
/// Advice about a key of another trainer (PyTorch Lightning, mpi_learn): what to use here; empty for an unknown key. In
/// engine/config/elsewhere.cpp.
std::string_view advice_for(std::string_view key);

}  // namespace tutti::engine
