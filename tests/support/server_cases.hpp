// The scenarios of TorchMPI's parameter server test, and the order of one worker's calls. Every rank is a worker and a
// server. Each function is collective, and throws std::runtime_error if a result is wrong.
#pragma once

#include "tutti/parameter_server.hpp"

namespace tutti::testing {

void play_default_init(Communicator& world, ParameterServer& server);   ///< each rank initializes its own shard
void play_constant(Communicator& world, ParameterServer& server);       ///< 911 x 101 elements of 123
void play_zero(Communicator& world, ParameterServer& server);           ///< the last rank pushes "zero"
void play_copy(Communicator& world, ParameterServer& server);           ///< the last rank pushes "copy" with its rank
void play_copy_then_add(Communicator& world, ParameterServer& server);  ///< then all ranks add their rank
void play_program_order(Communicator& world, ParameterServer& server);  ///< 100 mixed calls without waiting

/// Runs each of these `rounds` times.
void play_server_cases(Communicator& world, int rounds);

/// The value of TUTTI_TEST_ROUNDS, or `otherwise` if it is not set.
int rounds_or(int otherwise);

}  // namespace tutti::testing
