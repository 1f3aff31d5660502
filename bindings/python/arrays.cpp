#include "bindings/python/arrays.hpp"

#include <nanobind/stl/string.h>

#include <charconv>
#include <cstring>
#include <string_view>

#include "bindings/python/dlpack.hpp"
#include "transports/core/checked.hpp"

namespace tutti::python {
namespace {

using bindings::View;

constexpr const char* cuda_interface = "__cuda_array_interface__";

std::string name_of_type(nb::handle object) {
  return nb::cast<std::string>(nb::handle(reinterpret_cast<PyObject*>(Py_TYPE(object.ptr()))).attr("__name__"));
}

View named(std::string_view name) { return *bindings::find_view(name); }

/// Items of an unknown type can only be moved.
View opaque(std::size_t item_bytes) {
  View view = named("bytes");
  view.elements = item_bytes;
  return view;
}

/// From the kind (the letter of __array_interface__: int, uint, float, complex or bool) and the size in bytes.
View view_of(char kind, std::size_t bytes) {
  const auto number = [&](const char* letter) { return named(letter + std::to_string(bytes * 8)); };
  const bool whole = bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8;
  if (kind == 'b' && bytes == 1) return named("bool");
  if (kind == 'i' && whole) return number("i");
  if (kind == 'u' && whole) return number("u");
  if (kind == 'f' && whole && bytes > 1) return number("f");
  if (kind == 'c' && (bytes == 8 || bytes == 16)) return named(bytes == 8 ? "c64" : "c128");
  return opaque(bytes);
}

/// From a format string of the struct module for one item.
View view_of_format(const char* format, std::size_t bytes) {
  if (format == nullptr) return view_of('u', bytes);
  std::string_view text = format;
  if (!text.empty() && (text[0] == '<' || text[0] == '=' || text[0] == '@')) text.remove_prefix(1);
  if (text == "Zf" || text == "Zd") return view_of('c', bytes);
  if (text.size() != 1) return opaque(bytes);
  switch (text[0]) {
    case '?': return view_of('b', bytes);
    case 'b':
    case 'h':
    case 'i':
    case 'l':
    case 'q':
    case 'n': return view_of('i', bytes);
    case 'B':
    case 'H':
    case 'I':
    case 'L':
    case 'Q':
    case 'N': return view_of('u', bytes);
    case 'e':
    case 'f':
    case 'd': return view_of('f', bytes);
    default: return opaque(bytes);
  }
}

constexpr int deepest_record = 64;

/// Returns true if an item of this buffer format is a Python object or contains one. Field names stand between colons.
bool has_objects(const char* format) {
  bool in_name = false;
  for (const char* at = format; at != nullptr && *at != '\0'; ++at) {
    if (*at == ':') in_name = !in_name;
    if (*at == 'O' && !in_name) return true;
  }
  return false;
}

/// The same of the types in `descr` of an array's interface: (name, type[, shape]), where a type may be such a list.
bool has_objects(nb::handle descr, int depth = 0) {
  if (depth > deepest_record) throw nb::type_error("the array's interface has records within records without end");
  for (nb::handle field : descr) {
    const nb::object type = field[1];
    if (nb::isinstance<nb::str>(type) ? std::string_view(nb::cast<nb::str>(type).c_str()).find('O') != std::string::npos
                                      : has_objects(type, depth + 1))
      return true;
  }
  return false;
}

struct ReleaseBuffer {
  void operator()(Py_buffer* buffer) const {
    PyBuffer_Release(buffer);
    delete buffer;
  }
};

/// Returns false if the object does not support the buffer protocol.
bool by_buffer(nb::handle object, Array& array) {
  if (PyObject_CheckBuffer(object.ptr()) == 0) return false;
  std::unique_ptr<Py_buffer> buffer(new Py_buffer);
  if (PyObject_GetBuffer(object.ptr(), buffer.get(), PyBUF_FULL_RO) != 0) {
    PyErr_Clear();  // for example numpy's bfloat16, which has no format
    return false;
  }
  const std::shared_ptr<Py_buffer> owner(buffer.release(), ReleaseBuffer());
  array.data = static_cast<std::byte*>(owner->buf);
  array.view = view_of_format(owner->format, static_cast<std::size_t>(owner->itemsize));
  array.objects = has_objects(owner->format);
  array.read_only = owner->readonly != 0;
  array.shape.assign(owner->shape, owner->shape + owner->ndim);
  if (owner->strides != nullptr) array.strides.assign(owner->strides, owner->strides + owner->ndim);
  array.holder = owner;
  return true;
}

View view_of(const dlpack::Tensor& tensor) {
  const std::size_t bytes = tensor.bits / 8u;
  if (tensor.lanes != 1) return opaque(bytes * tensor.lanes);
  switch (tensor.code) {
    case dlpack::of_int: return view_of('i', bytes);
    case dlpack::of_uint: return view_of('u', bytes);
    case dlpack::of_float: return view_of('f', bytes);
    case dlpack::of_complex: return view_of('c', bytes);
    case dlpack::of_bool: return view_of('b', bytes);
    case dlpack::of_bfloat:
      if (bytes == 2) return named("bf16");
      [[fallthrough]];
    default: return opaque(bytes);
  }
}

void take(const dlpack::Tensor& tensor, Array& array) {
  array.data = static_cast<std::byte*>(tensor.data) + tensor.byte_offset;
  array.view = view_of(tensor);
  array.shape.assign(tensor.shape, tensor.shape + tensor.dimensions);
  if (tensor.strides != nullptr) {
    array.strides.assign(tensor.strides, tensor.strides + tensor.dimensions);
    for (std::int64_t& one : array.strides) one *= static_cast<std::int64_t>(array.view.item_bytes());
  }
  if (tensor.device_type == dlpack::cuda || tensor.device_type == dlpack::cuda_managed)
    array.device = {Device::Kind::cuda, tensor.device_index};
  else if (tensor.device_type != dlpack::cpu && tensor.device_type != dlpack::cuda_host)
    throw nb::type_error("the array is on a device that is neither the host nor CUDA");
}

/// Asks for DLPack 1.0, which says whether the memory is read-only. Older producers do not accept `max_version`.
nb::object capsule_of(nb::handle object, const Wish& wish) {
  nb::dict options;
  if (wish.stream) options["stream"] = *wish.stream;
  try {
    return object.attr("__dlpack__")(nb::arg("max_version") = nb::make_tuple(1, 0), **options);
  } catch (nb::python_error& error) {
    if (!error.matches(PyExc_TypeError)) throw;
  }
  return object.attr("__dlpack__")(**options);
}

template <class Owner>
std::shared_ptr<void> taken(nb::handle capsule, const char* name, const char* used, Owner*& owner) {
  owner = static_cast<Owner*>(PyCapsule_GetPointer(capsule.ptr(), name));
  PyCapsule_SetName(capsule.ptr(), used);
  return std::shared_ptr<void>(owner, [](void* one) {
    auto* const managed = static_cast<Owner*>(one);
    if (managed->deleter != nullptr) managed->deleter(managed);
  });
}

bool by_dlpack(nb::handle object, const Wish& wish, Array& array) {
  if (!nb::hasattr(object, "__dlpack__")) return false;
  const nb::object capsule = capsule_of(object, wish);
  if (PyCapsule_IsValid(capsule.ptr(), "dltensor_versioned") != 0) {
    dlpack::Versioned* owner = nullptr;
    array.holder = taken(capsule, "dltensor_versioned", "used_dltensor_versioned", owner);
    array.read_only = (owner->flags & dlpack::read_only) != 0;
    take(owner->tensor, array);
  } else {
    dlpack::Managed* owner = nullptr;
    array.holder = taken(capsule, "dltensor", "used_dltensor", owner);
    take(owner->tensor, array);
  }
  return true;
}

/// Both array interfaces are dictionaries with the same fields.
bool by_interface(nb::handle object, const char* name, Array& array) {
  if (!nb::hasattr(object, name)) return false;
  const auto fields = nb::cast<nb::dict>(object.attr(name));
  const auto type = nb::cast<std::string>(fields["typestr"]);
  std::size_t item_bytes = sizeof(PyObject*);  // of objects, for which NumPy says "|O"
  const char* const end = type.data() + type.size();
  const bool objects = type.size() == 2 && type[1] == 'O';
  if (!objects && (type.size() < 3 || std::from_chars(type.data() + 2, end, item_bytes).ptr != end))
    throw nb::type_error("the array's interface has no typestr that makes sense");
  array.view = view_of(type[1], item_bytes);
  array.objects = type[1] == 'O' || (type[1] == 'V' && fields.contains("descr") && has_objects(fields["descr"]));
  const auto place = nb::cast<nb::tuple>(fields["data"]);
  array.data = reinterpret_cast<std::byte*>(nb::cast<std::uintptr_t>(place[0]));
  array.read_only = nb::cast<bool>(place[1]);
  array.shape = {};
  for (nb::handle one : fields["shape"]) array.shape.push_back(nb::cast<std::int64_t>(one));
  if (fields.contains("strides") && !fields["strides"].is_none())
    for (nb::handle one : fields["strides"]) array.strides.push_back(nb::cast<std::int64_t>(one));
  const bool on_device = std::string_view(name) == cuda_interface;
  if (on_device) array.device = {Device::Kind::cuda, -1};
  if (on_device && fields.contains("stream") && !fields["stream"].is_none())
    array.stream = nb::cast<std::int64_t>(fields["stream"]);
  auto* const kept = object.inc_ref().ptr();
  array.holder = std::shared_ptr<void>(kept, [](void* one) { Py_DECREF(static_cast<PyObject*>(one)); });
  return true;
}

/// NumPy has no bfloat16; types that packages add are recognised by name.
void recognise_bf16(nb::handle object, Array& array) {
  if (array.view.meaning != bindings::Meaning::bytes || array.view.item_bytes() != 2) return;
  if (!nb::hasattr(object, "dtype")) return;
  const nb::object dtype = object.attr("dtype");
  const auto text = nb::steal<nb::str>(PyObject_Str(dtype.ptr()));
  if (std::string_view(text.c_str()) == "bfloat16") array.view = named("bf16");
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
  if (!by_buffer(object, array) && !by_interface(object, "__array_interface__", array) &&
      !by_dlpack(object, wish, array) && !by_interface(object, cuda_interface, array)) {
    const std::string text = argument + " is a " + name_of_type(object) +
                             "; give an array (NumPy, PyTorch, a buffer, whatever has __dlpack__), or a number";
    throw nb::type_error(text.c_str());
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
