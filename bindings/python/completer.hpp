// What is left when Python has let go of a call, and callbacks of Python: both without a thread of the library's ever
// taking the GIL.
#pragma once

#include <nanobind/nanobind.h>

#include <vector>

#include "bindings/python/work.hpp"

namespace tutti::python {

/// Keeps a call and its operands, of which no handle is left in Python. GIL held.
void keep_until_done(Communicator communicator, Work work, std::vector<Operand> operands);

/// Lets go of what was kept and is done. GIL held; costs a look where nothing is kept.
void let_go_of_the_done();

/// Runs callback(object) once the work is done, on the one thread that is for callbacks. GIL held.
void call_back(const Work& work, nb::object object, nb::object callback);

}  // namespace tutti::python
