// A master's step by gradients: the optimizer of the configuration, at the server, on what the server keeps.
#pragma once

#include <vector>

#include "collectives/parameter_server/rule.hpp"
#include "engine/config.hpp"
#include "engine/strategies/master_rules.hpp"
#include "nn/module.hpp"

namespace tutti::engine {

/// Data: sums of gradients of `tensors`, which are of one element type and one after the other in the buffer. A push's
/// factor is the learning rate; of a round, gradients are averaged and one step is made. Tensors that lie in this
/// server's shard as a whole keep their shape, so that with one server and one worker the bits are those of the
/// optimizer at the worker; of others it sees the part as a vector. What the optimizer remembers is the rule's own: it
/// is good for one buffer of one server. Throws Error{invalid} where the optimizer of the configuration cannot be made.
ServerRule gradient_rule(const Config& config, const std::vector<nn::NamedTensor>& tensors,
                         const StalenessPolicy& staleness, int quorum, double grace);

}  // namespace tutti::engine
