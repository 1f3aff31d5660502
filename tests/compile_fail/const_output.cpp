// The buffer that a collective writes to must not be const.
// expect: no known conversion for argument 1 from .*const std::vector<int>.* to .tutti::Buffer
#include <vector>

#include "tutti.hpp"

#ifdef WRONG
using Data = const std::vector<int>;
#else
using Data = std::vector<int>;
#endif

void share(tutti::Communicator& world, Data& data) { world.broadcast(data).wait(); }
