// The rules of exchange that can be chosen by name (sync.rule), and their options: plain text, without LibTorch.
#pragma once

#include <span>

#include "engine/options.hpp"

namespace tutti::engine {

/// gradients    every step: the mean of the gradients, before the update
/// parameters   every n steps: the mean of the parameters, after the update (local SGD; Stich 2019)
/// avg          the same at the learning rate times the ranks, as Theano-MPI's mode of that name
/// cdd          every n steps: the sum of the ranks' updates, applied at the next step (Theano-MPI)
std::span<const ChoiceInfo> exchange_table() noexcept;

}  // namespace tutti::engine
