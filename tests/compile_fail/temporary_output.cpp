// A temporary would be gone before the result arrives.
// expect: cannot convert .std::vector<int>. to .tutti::Buffer
#include <span>
#include <vector>

#include "tutti.hpp"

std::vector<int> all(tutti::Communicator& world, std::vector<int>& mine) {
#ifdef WRONG
  world.allgather(mine, std::vector<int>(8)).wait();
  return {};
#else
  std::vector<int> everyone(8);
  world.allgather(mine, everyone).wait();
  world.allgather(mine, std::span(everyone)).wait();  // a temporary view of lasting memory is fine
  return everyone;
#endif
}
