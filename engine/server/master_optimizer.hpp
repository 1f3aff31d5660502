// The rule of masters that receive gradients: the server runs the configured optimizer on its shard.
#pragma once

#include <vector>

#include "engine/config.hpp"
#include "engine/server/master_rules.hpp"
#include "nn/module.hpp"
#include "tutti/rule.hpp"

namespace tutti::engine {

/// The buffer's values are `tensors`, one after the other, all of one element type. Pushed data are sums of their
/// gradients, and a push's factor is the learning rate. The gradients of a round are averaged and make one step. A
/// tensor that lies completely in this server's shard keeps its shape, so with one server and one worker the result is
/// bitwise that of the optimizer at the worker. A part of a tensor is treated as a vector. The rule holds the
/// optimizer's state, so use it for one buffer of one server only. If the optimizer cannot be made, pushes fail.
ServerRule gradient_rule(const Config& config, const std::vector<nn::NamedTensor>& tensors,
                         const StalenessPolicy& staleness, int quorum, double grace);

}  // namespace tutti::engine
