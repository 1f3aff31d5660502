// Keeps calls alive whose Python objects are gone, and runs Python callbacks. For these two tasks, no thread of
// libtutti takes the GIL.
#pragma once

#include <nanobind/nanobind.h>

#include <vector>

#include "bindings/python/work.hpp"

namespace tutti::python {

/// Keeps a call and its operands alive until the call is done. GIL held.
void keep_until_done(Communicator communicator, Work work, std::vector<Operand> operands);

/// Releases the kept calls that are done. GIL held; cheap if no calls are kept.
void let_go_of_the_done();

/// Makes the callback thread call callback(object) when the work is done. GIL held.
void call_back(const Work& work, nb::object object, nb::object callback);

}  // namespace tutti::python
