// A buffer holds the element types of dtype.hpp, and no others.
// expect: no matching function for call to .tutti::Communicator::allreduce\(std::vector<long double>&\)
#include <vector>

#include "tutti.hpp"

#ifdef WRONG
using Number = long double;
#else
using Number = double;
#endif

void add(tutti::Communicator& world, std::vector<Number>& data) { world.allreduce(data).wait(); }
