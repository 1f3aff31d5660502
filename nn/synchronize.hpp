// Functions on whole networks: make replicas equal, average their gradients, check that replicas are equal.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "nn/module.hpp"
#include "tutti/communicator.hpp"

namespace tutti::nn {

class TensorDevice;

// A network is a list of named tensors, in the same order on all ranks, or a LibTorch module. Tensors are dense and all
// on one device; without a TensorDevice it is the device of the first tensor. In a module, a tensor that is registered
// more than once counts once, under its first name; a list should contain each tensor once.

/// Broadcasts root's values of these tensors (of a module: parameters and buffers), fused into a few large messages.
/// Collective; blocks.
void synchronize_parameters(std::span<const NamedTensor> tensors, Communicator communicator, int root = 0);
void synchronize_parameters(torch::nn::Module& module, Communicator communicator, int root = 0);
void synchronize_parameters(std::span<const NamedTensor> tensors, Communicator communicator, int root,
                            TensorDevice& tensor_device);

/// How the buffers of replicas are made equal. They differ because forward changes buffers on each rank, such as the
/// running statistics of a BatchNorm.
enum class BufferPolicy {
  broadcast,  ///< every rank receives rank 0's buffers
  average,    ///< floating-point buffers are averaged; others, such as num_batches_tracked, are taken from rank 0
  local,      ///< every rank keeps its own
};

/// Applies the policy to the buffers; does nothing if it is local. Collective; blocks.
void synchronize_buffers(std::span<const NamedTensor> buffers, Communicator communicator, BufferPolicy policy);
void synchronize_buffers(torch::nn::Module& module, Communicator communicator, BufferPolicy policy);
void synchronize_buffers(std::span<const NamedTensor> buffers, Communicator communicator, BufferPolicy policy,
                         TensorDevice& tensor_device);

/// The result of average_gradients(), equal on all ranks.
struct GradientReport {
  std::size_t averaged = 0;
  /// parameters without a gradient on any rank; their gradients stay undefined
  std::vector<std::string> without_gradient;
};

/// Replaces every rank's gradients by their mean. If only some ranks have a gradient for a parameter, the others count
/// as zero, and all ranks get the mean. Collective; blocks.
GradientReport average_gradients(std::span<const NamedTensor> parameters, Communicator communicator);
GradientReport average_gradients(torch::nn::Module& module, Communicator communicator);
GradientReport average_gradients(std::span<const NamedTensor> parameters, Communicator communicator,
                                 TensorDevice& tensor_device);

enum class Compared { parameters_and_buffers, parameters };

/// Throws Error{mismatch} on all ranks if a parameter or buffer is not bitwise equal on all ranks. The error names the
/// first one, in the network's order, and the ranks that differ from rank 0. Compares 64-bit hashes by two allreduces,
/// of 16 bytes and of 16 bytes a tensor, whatever the number of ranks. Collective; blocks.
void check_replicas(std::span<const NamedTensor> parameters, std::span<const NamedTensor> buffers,
                    Communicator communicator);
void check_replicas(const torch::nn::Module& module, Communicator communicator,
                    Compared what = Compared::parameters_and_buffers);

}  // namespace tutti::nn
