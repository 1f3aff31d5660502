// A master's step by gradients: the configured optimizer, run by the server on its shard.
#pragma once

#include <vector>

#include "engine/config.hpp"
#include "engine/server/master_rules.hpp"
#include "nn/module.hpp"
#include "tutti/rule.hpp"

namespace tutti::engine {

/// Values: `tensors`, one after the other, all of one element type. Data: sums of their gradients. A push's factor is
/// the learning rate. The gradients of a round are averaged, and make one step. A tensor that is wholly in this
/// server's shard keeps its shape, so that with one server and one worker the result is bitwise that of the optimizer
/// at the worker; of another tensor the server's part is stepped as a vector. The rule holds the optimizer's state, so
/// it can be used for one buffer of one server only. If the configured optimizer cannot be made, pushes fail.
ServerRule gradient_rule(const Config& config, const std::vector<nn::NamedTensor>& tensors,
                         const StalenessPolicy& staleness, int quorum, double grace);

}  // namespace tutti::engine
