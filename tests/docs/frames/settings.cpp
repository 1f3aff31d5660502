// Settings of a program.
#include <tutti.hpp>

using namespace tutti;

void start() {
  // the block
}
