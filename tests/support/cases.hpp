// The cases of the conformance suite for collectives, for ranks that are threads of a test and for ranks that are
// processes.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/support/played.hpp"
#include "tests/support/thinned.hpp"

namespace tutti::testing {

/// kind x dtype x op in full; counts, roots and places are drawn from the seed.
std::vector<Case> cases(int p, std::uint64_t seed);

/// The seed of the cases: the value of TUTTI_TEST_SEED if that is set, else a fixed number.
std::uint64_t case_seed();

/// Plays `all` on `world`, up to five in flight, waited for in an order of the rank's own. `sums[i]`: the checksum of
/// what must be equal on all ranks. Throws std::runtime_error at the first wrong result.
void play(Communicator& world, const std::vector<Case>& all, std::vector<std::uint64_t>& sums);

/// The same, and what must be equal on all ranks is: else it throws std::runtime_error.
void play_alike(Communicator& world, const std::vector<Case>& all);

/// What a call may name: targets[kind]. Plays each with a few counts, in and out of place, and in the v-form; returns
/// how many were played. What is refused must be refused before anything is sent: then the next call is right.
int play_targets(Communicator& world, const std::function<std::vector<std::string>(Kind)>& targets);

/// Our own algorithms that fit. `hosts`: by rank, where there are several.
std::vector<std::string> planned_targets(Kind kind, int size, const std::vector<int>& hosts = {});

/// Scalars, messages between two ranks, and groups.
void play_the_rest(Communicator& world);

}  // namespace tutti::testing
