// Averaging of sparse gradients, which hold a few rows of a large embedding table.
#pragma once

#include <span>

#include "nn/exchange.hpp"
#include "nn/module.hpp"

namespace tutti::nn {

/// Replaces the sparse gradient of each parameter, times `factor`, by its mean over the ranks. Each rank receives the
/// rows of all ranks: one allgather of the row counts, then per parameter an allgatherv of the row indices and one of
/// the rows. A rank without a gradient counts as zero; a parameter without a gradient on any rank stays without one.
/// Collective; blocks. Throws Error{unsupported} on all ranks if a gradient is dense.
void average_rows(std::span<const NamedTensor> parameters, double factor, Communicator& communicator, SyncStats& stats);

}  // namespace tutti::nn
