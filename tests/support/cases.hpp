// Cases of the conformance suite for collectives, for ranks that are threads of a test and for ranks that are
// processes.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/support/played.hpp"
#include "tests/support/thinned.hpp"

namespace tutti::testing {

/// All combinations of kind, dtype and op; counts, roots and placement (in place or not) are drawn from the seed.
std::vector<Case> cases(int p, std::uint64_t seed);

/// The seed of the cases: the value of TUTTI_TEST_SEED if that is set, else a fixed number.
std::uint64_t case_seed();

/// Plays `all` on `world`, up to five in flight, and waits for them in an order that differs by rank. `sums[i]`: the
/// checksum of the result that must be equal on all ranks. Throws std::runtime_error at the first wrong result.
void play(Communicator& world, const std::vector<Case>& all, std::vector<std::uint64_t>& sums);

/// Plays `all`, and compares the checksums. Throws std::runtime_error if a result is wrong or differs between ranks.
void play_alike(Communicator& world, const std::vector<Case>& all);

/// Plays each target that a call may name (targets(kind)) with a few counts, in and out of place, and in the v-form;
/// returns how many were played. A refused call must not send anything, so that the next call is right.
int play_targets(Communicator& world, const std::function<std::vector<std::string>(Kind)>& targets);

/// Returns our own algorithms that fit. `hosts`: the host of each rank, if there are several hosts.
std::vector<std::string> planned_targets(Kind kind, int size, const std::vector<int>& hosts = {});

/// Plays collectives of scalars, messages between two ranks, and groups.
void play_the_rest(Communicator& world);

}  // namespace tutti::testing
