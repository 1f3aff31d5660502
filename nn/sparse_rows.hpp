// Sparse gradients of embeddings: a few rows of a large table.
#pragma once

#include <span>

#include "nn/exchange.hpp"
#include "nn/module.hpp"

namespace tutti::nn {

/// The sparse gradients of these parameters, times `factor`, become their mean: every rank gets the rows of all, by an
/// allgather of the counts and then two for each parameter, of row numbers and of rows. A rank without a gradient
/// counts as zero; a parameter that has none anywhere is left without. Collective; blocks. Throws Error{unsupported} on
/// all ranks where a gradient is dense.
void average_rows(std::span<const NamedTensor> parameters, double factor, Communicator& communicator, SyncStats& stats);

}  // namespace tutti::nn
