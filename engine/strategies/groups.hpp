// Groups: who meets whom in a sync, drawn alike on every rank. Plain numbers, without LibTorch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tutti::engine {

/// The members, in rising order, of the group that `rank` is in at a sync: consecutive ones of a permutation that is
/// drawn from the seed and the number of the sync (NoLoCo, 2025). The last group may have fewer, as few as one.
std::vector<int> group_of(int rank, int ranks, std::int64_t group, std::uint64_t seed, std::uint64_t sync);

/// Whom a rank pushes to in a step, or -1: with a probability any other rank, all alike (GoSGD, 2016).
int pushes_to(int rank, int ranks, double probability, std::uint64_t seed, std::uint64_t step);

/// Whether something happens in a step, by its probability: the same on every rank.
bool happens(double probability, std::uint64_t seed, std::uint64_t step);

}  // namespace tutti::engine
