// Memory that is const can be read by a collective, and not written.
// expect: no matching function for call to .tutti::Buffer::Buffer\(const float\*&, int\)
#include "tutti.hpp"

#ifdef WRONG
using View = tutti::Buffer;
#else
using View = tutti::ConstBuffer;
#endif

View four_of(const float* memory) { return View(memory, 4); }
