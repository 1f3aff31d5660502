// The table of models with their options. Plain text, without LibTorch.
#pragma once

#include <span>

#include "engine/options.hpp"

namespace tutti::engine {

std::span<const ChoiceInfo> model_table() noexcept;

}  // namespace tutti::engine
