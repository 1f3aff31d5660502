// The calls of a guide, in a program of C++.
#include <tutti.hpp>
#include <vector>

void calls(tutti::Communicator& world) {
  const int next = (world.rank() + 1) % world.size(), previous = (world.rank() + world.size() - 1) % world.size();
  std::vector<float> weights(8), mine(4), theirs(4), all(4 * static_cast<std::size_t>(world.size()));
  // the block
}
