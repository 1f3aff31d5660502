// A worker that joins later.
#include <tutti.hpp>
#include <tutti/parameter_server.hpp>

#include <string>

using namespace tutti;

void join(Communicator& world, const std::string& address, std::size_t count) {
  // the block
}
