// Forgetting the handle of a call is not a way to run it: Work must be kept or waited for.
// expect: ignoring returned value of type .tutti::Work.*nodiscard
#include <vector>

#include "tutti.hpp"

void average(tutti::Communicator& world, std::vector<float>& gradient) {
#ifdef WRONG
  world.allreduce(gradient, tutti::avg);
#else
  world.allreduce(gradient, tutti::avg).wait();
#endif
}
