// A rule of one's own for what workers push.
#include <tutti.hpp>
#include <tutti/parameter_server.hpp>

void keep(tutti::Communicator& world) {
  // the block
}
