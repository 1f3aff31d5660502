// The structs in DLPack capsules (dmlc/dlpack, versions 0.8 and 1.0), which are an ABI and need no library.
#pragma once

#include <cstdint>

namespace tutti::python::dlpack {

inline constexpr std::int32_t cpu = 1, cuda = 2, cuda_host = 3, cuda_managed = 13;  // device types
inline constexpr std::uint8_t of_int = 0, of_uint = 1, of_float = 2, of_bfloat = 4, of_complex = 5, of_bool = 6;
inline constexpr std::uint64_t read_only = 1;  // a flag

struct Tensor {
  void* data;
  std::int32_t device_type, device_index;
  std::int32_t dimensions;
  std::uint8_t code, bits;
  std::uint16_t lanes;
  std::int64_t* shape;
  std::int64_t* strides;  ///< in elements; null: contiguous
  std::uint64_t byte_offset;
};

/// The content of a capsule named "dltensor".
struct Managed {
  Tensor tensor;
  void* context;
  void (*deleter)(Managed*);
};

/// The content of a capsule named "dltensor_versioned".
struct Versioned {
  std::uint32_t major, minor;
  void* context;
  void (*deleter)(Versioned*);
  std::uint64_t flags;
  Tensor tensor;
};

}  // namespace tutti::python::dlpack
