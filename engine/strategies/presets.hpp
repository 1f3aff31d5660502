// The presets: training strategies by their names in the literature, as values of the axes. Without LibTorch.
//
// A new preset is a row of the table in presets.cpp: a name, a sentence, and the axes that differ from
// axis_options(). If its axes can be combined already, that is all; `tutti train --explain-strategy` prints it, and
// tests/engine/presets_test.cpp trains with it. A new value of an axis is an enumerator in axes.hpp, its name in
// axes.cpp, and the code that acts on it: an outer rule in outer.cpp, a merge in merge.cpp, a codec in
// nn/encoding.cpp. A new `how` is a class derived from Strategy, or from Local if ranks make steps of their own,
// and a line in make_strategy(), which chooses by `how` and `what`.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "engine/options.hpp"

namespace tutti::engine {

/// All presets, each with all axes as options.
std::span<const ChoiceInfo> strategy_table();

/// The axes with the defaults of the first preset.
std::span<const OptionInfo> shared_axes();

/// The canonical form of a preset's name: lower case, with `-` for `_`. "sgd" is "downpour".
std::string preset_name(std::string_view given);

}  // namespace tutti::engine
