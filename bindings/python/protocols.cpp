#include "bindings/python/protocols.hpp"

#include <nanobind/stl/string.h>

#include <bit>
#include <charconv>
#include <cstring>
#include <optional>
#include <string_view>

#include "bindings/python/dlpack.hpp"
#include "transports/core/checked.hpp"

namespace tutti::python {
namespace {

using bindings::View;

View named(std::string_view name) { return *bindings::find_view(name); }

/// The view for items of an unknown type: bytes, which can be moved but not reduced.
View opaque(std::size_t item_bytes) {
  View view = named("bytes");
  view.elements = item_bytes;
  return view;
}

/// True if a format or typestr marks a byte order that is not this machine's.
bool is_swapped(char order) {
  const bool is_big = order == '>' || order == '!', is_little = order == '<';
  return std::endian::native == std::endian::little ? is_big : is_little;
}

/// The view for a kind (the letter in __array_interface__: int, uint, float, complex or bool) and a size in bytes.
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

/// The view for a format string of the struct module for one item.
View view_of_format(const char* format, std::size_t bytes) {
  if (format == nullptr) return view_of('u', bytes);
  std::string_view text = format;
  if (!text.empty() && std::string_view("<>=@!").find(text[0]) != std::string_view::npos) {
    if (bytes > 1 && is_swapped(text[0])) return opaque(bytes);
    text.remove_prefix(1);
  }
  if (text == "Zf" || text == "Zd") return view_of('c', bytes);
  if (text.size() != 1) return opaque(bytes);
  if (text[0] == '?') return view_of('b', bytes);
  if (std::string_view("bhilqn").find(text[0]) != std::string_view::npos) return view_of('i', bytes);
  if (std::string_view("BHILQN").find(text[0]) != std::string_view::npos) return view_of('u', bytes);
  if (std::string_view("efd").find(text[0]) != std::string_view::npos) return view_of('f', bytes);
  return opaque(bytes);
}

constexpr int deepest_record = 64;

/// True if an item of this buffer format is, or contains, a Python object. Field names are between colons.
bool has_objects(const char* format) {
  bool in_name = false;
  for (const char* at = format; at != nullptr && *at != '\0'; ++at) {
    if (*at == ':') in_name = !in_name;
    if (*at == 'O' && !in_name) return true;
  }
  return false;
}

/// The same for `descr` of an array's interface, a list of (name, type[, shape]); a type may be such a list again.
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

/// Null, with a Python error set, if the object has no buffer for these flags.
std::shared_ptr<Py_buffer> buffer_of(nb::handle object, int flags) {
  std::unique_ptr<Py_buffer> buffer(new Py_buffer);
  if (PyObject_GetBuffer(object.ptr(), buffer.get(), flags) != 0) return nullptr;
  return {buffer.release(), ReleaseBuffer()};
}

[[noreturn]] void refuse_mask() { throw nb::type_error("the array is masked; fill it, or give its data and its mask"); }

/// True for a numpy.ma.MaskedArray with masked items, which its buffer does not show. The check of the type is fast for
/// NumPy's own arrays: their class is not defined in Python.
bool has_masked_items(nb::handle object) {
  if (!PyType_HasFeature(Py_TYPE(object.ptr()), Py_TPFLAGS_HEAPTYPE) || !nb::hasattr(object, "mask")) return false;
  const nb::object mask = object.attr("mask");
  return nb::hasattr(mask, "any") && PyObject_IsTrue(nb::object(mask.attr("any")()).ptr()) == 1;
}

std::shared_ptr<void> kept(nb::handle object) {
  return {object.inc_ref().ptr(), [](void* one) { Py_DECREF(static_cast<PyObject*>(one)); }};
}

}  // namespace

bool by_buffer(nb::handle object, Array& array) {
  if (PyObject_CheckBuffer(object.ptr()) == 0) return false;
  if (has_masked_items(object)) refuse_mask();
  const std::shared_ptr<Py_buffer> owner = buffer_of(object, PyBUF_FULL_RO);
  if (!owner) {
    PyErr_Clear();  // for example numpy's bfloat16, which has no format
    return false;
  }
  array.data = static_cast<std::byte*>(owner->buf);
  array.view = view_of_format(owner->format, static_cast<std::size_t>(owner->itemsize));
  array.objects = has_objects(owner->format);
  array.type = owner->format == nullptr ? "" : owner->format;
  array.read_only = owner->readonly != 0;
  array.shape.assign(owner->shape, owner->shape + owner->ndim);
  if (owner->strides != nullptr) array.strides.assign(owner->strides, owner->strides + owner->ndim);
  array.holder = owner;
  return true;
}

// ---- DLPack -------------------------------------------------------------------------------------

namespace {

View view_of(const dlpack::Tensor& tensor) {
  if (tensor.bits % 8 != 0 || tensor.bits == 0)
    throw nb::type_error("the array's elements are no whole bytes; convert it to a wider type");
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
  array.type = std::to_string(tensor.bits) + " bits of DLPack's type " + std::to_string(tensor.code);
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

/// Requests DLPack 1.0, which states whether the memory is read-only. Older producers do not accept `max_version`.
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
  if (owner == nullptr) throw nb::python_error();
  PyCapsule_SetName(capsule.ptr(), used);
  return std::shared_ptr<void>(owner, [](void* one) {
    auto* const managed = static_cast<Owner*>(one);
    if (managed->deleter != nullptr) managed->deleter(managed);
  });
}

}  // namespace

bool by_dlpack(nb::handle object, const Wish& wish, Array& array) {
  if (!nb::hasattr(object, "__dlpack__")) return false;
  const nb::object capsule = capsule_of(object, wish);
  if (PyCapsule_IsValid(capsule.ptr(), "dltensor_versioned") != 0) {
    dlpack::Versioned* owner = nullptr;
    array.holder = taken(capsule, "dltensor_versioned", "used_dltensor_versioned", owner);
    if (owner->major != 1) throw nb::type_error("the array speaks a version of DLPack that is not known here");
    array.read_only = (owner->flags & dlpack::read_only) != 0;
    take(owner->tensor, array);
  } else if (PyCapsule_IsValid(capsule.ptr(), "dltensor") != 0) {
    dlpack::Managed* owner = nullptr;
    array.holder = taken(capsule, "dltensor", "used_dltensor", owner);
    take(owner->tensor, array);
  } else {
    throw nb::type_error("the array's __dlpack__() gives no capsule that holds a tensor");
  }
  return true;
}

// ---- the array interfaces -------------------------------------------------------------------------

namespace {

bool is_given(const nb::dict& fields, const char* name) { return fields.contains(name) && !fields[name].is_none(); }

/// Reads typestr: byte order, kind, and the size in bytes, or in characters for text. NumPy has "|O" for objects.
void take_type(const nb::dict& fields, Array& array) {
  array.type = nb::cast<std::string>(fields["typestr"]);
  const std::string& type = array.type;
  const char* const end = type.data() + type.size();
  std::size_t size = sizeof(PyObject*);
  const char* rest = end;
  if (type.size() > 2) rest = std::from_chars(type.data() + 2, end, size).ptr;
  const char kind = type.size() < 2 ? '\0' : type[1];
  const bool has_unit = (kind == 'M' || kind == 'm') && rest != end && *rest == '[';
  const bool is_known = kind != '\0' && std::string_view("biufcmMOSUV").find(kind) != std::string_view::npos;
  if (!is_known || std::string_view("<>|=").find(type[0]) == std::string_view::npos || (rest != end && !has_unit) ||
      (type.size() == 2 && kind != 'O') || size > PTRDIFF_MAX / 4)
    throw nb::type_error(("the array's interface has typestr '" + type + "', which means nothing here").c_str());
  if (kind == 'U') size *= 4;
  array.view = size > 1 && is_swapped(type[0]) ? opaque(size) : view_of(kind, size);
  array.objects = kind == 'O' || (kind == 'V' && is_given(fields, "descr") && has_objects(fields["descr"]));
}

void take_shape(const nb::dict& fields, Array& array) {
  for (nb::handle one : fields["shape"]) array.shape.push_back(nb::cast<std::int64_t>(one));
  if (is_given(fields, "strides"))
    for (nb::handle one : fields["strides"]) array.strides.push_back(nb::cast<std::int64_t>(one));
}

/// Takes the memory from the buffer of `object`. Throws ValueError if not every item lies in the buffer.
void take_from_buffer(nb::handle object, const nb::dict& fields, Array& array) {
  const std::shared_ptr<Py_buffer> owner = buffer_of(object, PyBUF_SIMPLE);
  if (!owner) throw nb::python_error();
  std::int64_t first = is_given(fields, "offset") ? nb::cast<std::int64_t>(fields["offset"]) : 0, last = first;
  const auto width = static_cast<std::int64_t>(array.view.item_bytes());
  bool fits = checked_product(array.view.item_bytes(), array.shape).has_value() &&
              (array.strides.empty() || array.strides.size() == array.shape.size()) && first >= 0 &&
              first <= owner->len;
  std::int64_t packed = width;
  bool is_empty = false;
  for (std::size_t i = array.shape.size(); fits && i-- > 0;) {
    std::int64_t reach = 0;
    is_empty |= array.shape[i] == 0;
    const std::int64_t stride = array.strides.empty() ? packed : array.strides[i];
    fits = !__builtin_mul_overflow(stride, array.shape[i] - 1, &reach) &&
           !__builtin_add_overflow(reach < 0 ? first : last, reach, reach < 0 ? &first : &last);
    packed *= array.shape[i];
  }
  fits = fits && (is_empty || (first >= 0 && last <= owner->len - width));
  if (!fits) throw nb::value_error("the array's interface claims more memory than its buffer has");
  const std::int64_t offset = is_given(fields, "offset") ? nb::cast<std::int64_t>(fields["offset"]) : 0;
  array.data = static_cast<std::byte*>(owner->buf) + offset;
  array.read_only = owner->readonly != 0;
  array.holder = owner;
}

void take_address(nb::handle object, const nb::dict& fields, Array& array) {
  const auto place = nb::cast<nb::tuple>(fields["data"]);
  array.data = reinterpret_cast<std::byte*>(nb::cast<std::uintptr_t>(place[0]));
  array.read_only = nb::cast<bool>(place[1]);
  array.holder = kept(object);
}

/// The fields of an object's interface; nullopt if the object does not have it. Stores type and shape in `array`.
std::optional<nb::dict> described(nb::handle object, const char* interface, Array& array) {
  if (!nb::hasattr(object, interface)) return {};
  auto fields = nb::cast<nb::dict>(object.attr(interface));
  if (is_given(fields, "mask")) refuse_mask();
  take_type(fields, array);
  take_shape(fields, array);
  return fields;
}

}  // namespace

bool by_array_interface(nb::handle object, Array& array) {
  const auto fields = described(object, "__array_interface__", array);
  if (!fields) return false;
  if (array.objects) return true;  // the caller refuses Python objects, so their memory is not needed
  if (!is_given(*fields, "data"))
    take_from_buffer(object, *fields, array);
  else if (nb::isinstance<nb::tuple>((*fields)["data"]))
    take_address(object, *fields, array);
  else
    take_from_buffer((*fields)["data"], *fields, array);
  return true;
}

bool by_cuda_interface(nb::handle object, Array& array) {
  const auto fields = described(object, "__cuda_array_interface__", array);
  if (!fields) return false;
  take_address(object, *fields, array);
  array.device = {Device::Kind::cuda, -1};
  if (is_given(*fields, "stream")) array.stream = nb::cast<std::int64_t>((*fields)["stream"]);
  return true;
}

}  // namespace tutti::python
