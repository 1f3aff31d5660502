#include "bindings/python/arrays.hpp"

#include <nanobind/stl/string.h>

#include <cstring>
#include <string_view>

#include "bindings/python/protocols.hpp"
#include "transports/core/checked.hpp"

namespace tutti::python {
namespace {

std::string name_of_type(nb::handle object) {
  return nb::cast<std::string>(nb::handle(reinterpret_cast<PyObject*>(Py_TYPE(object.ptr()))).attr("__name__"));
}

/// NumPy has no bfloat16; types that packages add are recognised by name.
void recognise_bf16(nb::handle object, Array& array) {
  if (array.view.meaning != bindings::Meaning::bytes || array.view.item_bytes() != 2) return;
  if (!nb::hasattr(object, "dtype")) return;
  const nb::object dtype = object.attr("dtype");
  const auto text = nb::steal<nb::str>(PyObject_Str(dtype.ptr()));
  if (std::string_view(text.c_str()) == "bfloat16") array.view = *bindings::find_view("bf16");
}

void apply(const Wish& wish, Array& array) {
  const auto view = bindings::find_view(*wish.dtype);
  if (!view) {
    const std::string text = "dtype='" + *wish.dtype + "' is no element type; one is 'bf16'";
    throw nb::value_error(text.c_str());
  }
  if (view->item_bytes() != array.view.item_bytes()) {
    const std::string text = "dtype='" + *wish.dtype + "' has " + std::to_string(view->item_bytes()) +
                             " bytes, but the array's elements have " + std::to_string(array.view.item_bytes());
    throw nb::value_error(text.c_str());
  }
  array.view = *view;
}

/// Calls `each` with the address of every item, in row-major order.
template <class Each>
void walk(const Array& array, std::byte* at, std::size_t axis, const Each& each) {
  if (axis == array.shape.size()) return each(at);
  for (std::int64_t i = 0; i < array.shape[axis]; ++i) walk(array, at + i * array.strides[axis], axis + 1, each);
}

[[noreturn]] void refuse(nb::handle object, const std::string& argument) {
  const char* const instead =
      nb::isinstance<nb::str>(object)
          ? "; give an array, such as text.encode(), or send it by broadcast_object(), allgather_object() and the like"
          : "; give an array (NumPy, PyTorch, a buffer, whatever has __dlpack__), or a number of Python or NumPy";
  throw nb::type_error((argument + " is a " + name_of_type(object) + instead).c_str());
}

}  // namespace

std::size_t Array::items() const noexcept {
  std::size_t product = 1;
  for (const std::int64_t one : shape) product *= static_cast<std::size_t>(one);
  return product;
}

std::size_t Array::row_items() const noexcept {
  std::size_t product = 1;
  for (std::size_t i = 1; i < shape.size(); ++i) product *= static_cast<std::size_t>(shape[i]);
  return product;
}

bool Array::is_packed() const noexcept {
  if (strides.empty()) return true;
  auto expected = static_cast<std::int64_t>(view.item_bytes());
  for (std::size_t i = shape.size(); i-- > 0;) {
    if (shape[i] == 0) return true;
    if (shape[i] != 1 && strides[i] != expected) return false;
    expected *= shape[i];
  }
  return true;
}

Array array_of(nb::handle object, Access access, const Wish& wish) {
  Array array;
  const std::string argument = wish.argument;
  if (!by_buffer(object, array) && !by_array_interface(object, array) && !by_dlpack(object, wish, array) &&
      !by_cuda_interface(object, array)) {
    if (access == Access::reads && nb::hasattr(object, "__array__") && !nb::isinstance<nb::type_object>(object))
      return array_of(object.attr("__array__")(), access, wish);
    refuse(object, argument);
  }
  if (!checked_product(array.view.item_bytes(), array.shape) ||
      (!array.strides.empty() && array.strides.size() != array.shape.size()))
    throw nb::value_error((argument + " has an impossible shape, or strides that are not its own").c_str());
  if (array.objects) {
    const std::string text = argument +
                             " holds references to Python objects, which mean nothing to another process; pickled "
                             "they can be sent: broadcast_object(), allgather_object(), send_object() and the like";
    throw nb::type_error(text.c_str());
  }
  recognise_bf16(object, array);
  if (wish.dtype) apply(wish, array);
  if (access == Access::writes && array.read_only) {
    const std::string text = argument + " is read-only, and the call writes to it; give a copy, or another `out`";
    throw nb::type_error(text.c_str());
  }
  return array;
}

void pack(const Array& from, std::byte* into) {
  const std::size_t width = from.view.item_bytes();
  walk(from, from.data, 0, [&](const std::byte* item) {
    std::memcpy(into, item, width);
    into += width;
  });
}

void unpack(const std::byte* from, const Array& into) {
  const std::size_t width = into.view.item_bytes();
  walk(into, into.data, 0, [&](std::byte* item) {
    std::memcpy(item, from, width);
    from += width;
  });
}

}  // namespace tutti::python
