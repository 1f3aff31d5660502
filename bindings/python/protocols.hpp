// The protocols by which a Python object gives access to its memory. Each function returns false if the object does not
// have the protocol, and throws TypeError if the object's description of its memory is invalid. GIL held.
#pragma once

#include "bindings/python/arrays.hpp"

namespace tutti::python {

bool by_buffer(nb::handle object, Array& array);
bool by_dlpack(nb::handle object, const Wish& wish, Array& array);
/// NumPy's array interface, version 3. The memory is an address, a buffer with an offset, or the object's own buffer.
bool by_array_interface(nb::handle object, Array& array);
bool by_cuda_interface(nb::handle object, Array& array);

}  // namespace tutti::python
