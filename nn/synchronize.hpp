// Whole-network verbs: make replicas equal, average their gradients, prove that they are equal.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "collectives/api/communicator.hpp"
#include "nn/module.hpp"

namespace tutti::nn {

// Networks are lists of tensors by name, in one order on all ranks, or modules of LibTorch. Tensors are dense and all
// on one device, which each verb finds by itself. Of a module, a tensor that is registered more than once counts once,
// under its first name; a list should have it once.

/// Gives every rank root's values of these tensors, parameters and buffers alike, in a few large broadcasts.
/// Collective; blocks.
void synchronize_parameters(std::span<const NamedTensor> tensors, Communicator communicator, int root = 0);
void synchronize_parameters(torch::nn::Module& module, Communicator communicator, int root = 0);

/// What becomes of a network's buffers. Each rank's forward changes its own, such as the running statistics of a
/// BatchNorm, from its own samples.
enum class BufferPolicy {
  broadcast,  ///< every rank gets rank 0's
  average,    ///< floating-point buffers become their mean; the others, such as num_batches_tracked, are rank 0's
  local,      ///< every rank keeps its own
};

/// Makes the buffers of all ranks alike, unless the policy is local, which does nothing. Collective; blocks.
void synchronize_buffers(std::span<const NamedTensor> buffers, Communicator communicator, BufferPolicy policy);
void synchronize_buffers(torch::nn::Module& module, Communicator communicator, BufferPolicy policy);

/// What average_gradients() found; the same on all ranks.
struct GradientReport {
  std::size_t averaged = 0;
  std::vector<std::string> without_gradient;  ///< parameters that had none on any rank; theirs stay undefined
};

/// Every rank's gradients become their mean. A parameter that has a gradient on some ranks only
/// counts as zero on the others, and gets the mean everywhere. Collective; blocks.
GradientReport average_gradients(std::span<const NamedTensor> parameters, Communicator communicator);
GradientReport average_gradients(torch::nn::Module& module, Communicator communicator);

enum class Compared { parameters_and_buffers, parameters };

/// Throws Error{mismatch} on all ranks, naming the first parameter or buffer (in the network's order) that
/// is not bitwise equal everywhere, and the ranks that differ from rank 0. Collective; blocks.
void check_replicas(std::span<const NamedTensor> parameters, std::span<const NamedTensor> buffers,
                    Communicator communicator);
void check_replicas(const torch::nn::Module& module, Communicator communicator,
                    Compared what = Compared::parameters_and_buffers);

}  // namespace tutti::nn
