// The memory of Python arrays, obtained by the buffer protocol, DLPack, __array_interface__ or
// __cuda_array_interface__.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bindings/common/views.hpp"
#include "tutti/buffer.hpp"

namespace tutti::python {

namespace nb = nanobind;

/// The access that a call needs to an array: read or write.
enum class Access { reads, writes };

/// The memory of a Python object, which is kept alive as long as this object. Created and destroyed with the GIL held.
struct Array {
  std::byte* data = nullptr;
  bindings::View view;
  std::vector<std::int64_t> shape = {};
  std::vector<std::int64_t> strides = {};   ///< in bytes; empty: contiguous, row-major
  Device device = {};                       ///< index -1: a CUDA array whose device is unknown
  std::optional<std::int64_t> stream = {};  ///< the stream that the producer names
  bool read_only = false;
  bool objects = false;   ///< true: items are, or contain, references to Python objects
  std::string type = {};  ///< the object's own name of the item type, a format or a typestr; for error messages
  std::shared_ptr<void> holder = {};

  std::size_t items() const noexcept;
  std::size_t bytes() const noexcept { return items() * view.item_bytes(); }
  /// Number of items per index of the first axis; 1 for a scalar.
  std::size_t row_items() const noexcept;
  bool is_packed() const noexcept;
};

/// The properties that a call requires of an array, besides its access.
struct Wish {
  const char* argument = "data";         ///< name of the argument, for messages
  std::optional<std::string> dtype{};    ///< interpret the elements as this type
  std::optional<std::int64_t> stream{};  ///< the caller's stream, for device memory
};

/// The memory of a Python object. For Access::reads, also of an object that only has __array__(), which may copy.
/// Throws TypeError if the object is no array, holds Python objects, or is read-only for Access::writes.
Array array_of(nb::handle object, Access access, const Wish& wish);

/// Copies between a strided array and contiguous memory.
void pack(const Array& from, std::byte* into);
void unpack(const std::byte* from, const Array& into);

}  // namespace tutti::python
