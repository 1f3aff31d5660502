// Buffers that a server keeps.
#include <tutti.hpp>

#include <vector>

void work(tutti::Communicator& world, std::vector<float>& weights, std::vector<float>& delta) {
  // the block
}
