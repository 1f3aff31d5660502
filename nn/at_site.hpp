// The verbs of synchronize.hpp at a Site that the caller has already, for the engine.
#pragma once

#include <span>

#include "nn/site.hpp"
#include "nn/synchronize.hpp"

namespace tutti::nn {

void synchronize_parameters(std::span<const NamedTensor> tensors, Communicator communicator, int root, Site& site);
void synchronize_buffers(std::span<const NamedTensor> buffers, Communicator communicator, BufferPolicy policy,
                         Site& site);
GradientReport average_gradients(std::span<const NamedTensor> parameters, Communicator communicator, Site& site);

}  // namespace tutti::nn
