// Arrays of Python programs, as memory: by the buffer protocol, DLPack, __array_interface__ and
// __cuda_array_interface__.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bindings/common/views.hpp"
#include "transports/core/buffer.hpp"

namespace tutti::python {

namespace nb = nanobind;

/// Whether a call reads an array, or writes it.
enum class Access { reads, writes };

/// The memory of an object, which stays there as long as this lives. Made and let go with the GIL held.
struct Array {
  std::byte* data = nullptr;
  bindings::View view;
  std::vector<std::int64_t> shape = {};
  std::vector<std::int64_t> strides = {};   ///< in bytes; empty: packed, the last index fastest
  Device device = {};                       ///< of a CUDA array whose object does not tell its number: -1
  std::optional<std::int64_t> stream = {};  ///< that its producer names
  bool read_only = false;
  std::shared_ptr<void> holder = {};

  std::size_t items() const noexcept;
  std::size_t bytes() const noexcept { return items() * view.item_bytes(); }
  /// Items per index of the first axis; 1 for one number.
  std::size_t row_items() const noexcept;
  bool is_packed() const noexcept;
};

/// What a call asks of an array beside its access.
struct Wish {
  const char* argument = "data";         ///< its name, for messages
  std::optional<std::string> dtype{};    ///< read the elements as this type
  std::optional<std::int64_t> stream{};  ///< of the caller, for device memory
};

/// Throws TypeError for what is no array, or may not be written.
Array array_of(nb::handle object, Access access, const Wish& wish);

/// Copies between a strided array and packed memory.
void pack(const Array& from, std::byte* into);
void unpack(const std::byte* from, const Array& into);

}  // namespace tutti::python
