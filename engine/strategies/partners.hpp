// Groups: which ranks exchange with one another, drawn from the seed so that all ranks agree. Without LibTorch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tutti::engine {

/// Returns the members of rank's group at sync number `sync`, in ascending order. Groups are consecutive elements of a
/// random permutation (NoLoCo, 2025); the last group may be smaller, down to one rank.
std::vector<int> group_of(int rank, int ranks, std::int64_t group, std::uint64_t seed, std::uint64_t sync);

/// Returns the rank that `rank` pushes to in this step: with `probability` one of the other ranks, each equally likely
/// (GoSGD, 2016); otherwise -1.
int pushes_to(int rank, int ranks, double probability, std::uint64_t seed, std::uint64_t step);

/// Draws whether an event of this probability happens in this step. Every rank gets the same answer.
bool happens(double probability, std::uint64_t seed, std::uint64_t step);

}  // namespace tutti::engine
