// The functions of synchronize.hpp for callers that already have a Site; the training engine uses them.
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
