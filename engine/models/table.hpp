// The models that can be chosen by name, and their options: plain text, without LibTorch.
#pragma once

#include <span>

#include "engine/options.hpp"

namespace tutti::engine {

std::span<const ChoiceInfo> model_table() noexcept;

}  // namespace tutti::engine
