// Calls whose Python objects are gone, and Python callbacks. In neither case does a thread of libtutti take the GIL.
#pragma once

#include <nanobind/nanobind.h>

#include <vector>

#include "bindings/python/work.hpp"

namespace tutti::python {

/// Keeps a call and its operands alive until the call is done. GIL held.
void keep_until_done(Communicator communicator, Work work, std::vector<Operand> operands);

/// Releases kept calls that are done. GIL held; cheap if there are none.
void let_go_of_the_done();

/// Calls callback(object) when the work is done, on the thread for callbacks. GIL held.
void call_back(const Work& work, nb::object object, nb::object callback);

}  // namespace tutti::python
