// A buffer made from a pointer holds the element types of dtype.hpp, and no others.
// expect: no matching function for call to .tutti::Buffer::Buffer\(Number\*&, int\)
#include "tutti.hpp"

#ifdef WRONG
using Number = long double;
#else
using Number = double;
#endif

tutti::Buffer four_of(Number* memory) { return tutti::Buffer(memory, 4); }
