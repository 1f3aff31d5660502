// A grid of ranks.
#include <tutti.hpp>
#include <tutti/mesh.hpp>

void lay_out(tutti::Communicator& world) {
  // the block
}
