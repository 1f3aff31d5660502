// The scenarios of TorchMPI's test of its parameter server, and the order of one worker's calls. Every rank is worker
// and server, and has to call these together; std::runtime_error where something is wrong.
#pragma once

#include "collectives/tutti_parameter_server.hpp"

namespace tutti::testing {

void play_default_init(Communicator& world, ParameterServer& server);   ///< each shard begins with its owner's values
void play_constant(Communicator& world, ParameterServer& server);       ///< 911 x 101 elements of 123
void play_zero(Communicator& world, ParameterServer& server);           ///< the last rank zeroes
void play_copy(Communicator& world, ParameterServer& server);           ///< the last rank copies its number
void play_copy_then_add(Communicator& world, ParameterServer& server);  ///< and then all add theirs
void play_program_order(Communicator& world, ParameterServer& server);  ///< 100 calls that nobody waits for, mixed

/// All of these, so many times each.
void play_server_cases(Communicator& world, int rounds);

/// TUTTI_TEST_ROUNDS, or `otherwise`.
int rounds_or(int otherwise);

}  // namespace tutti::testing
