// Arrays as LibTorch's tensors and back, without copying: only what trains needs LibTorch.
#pragma once

#include <ATen/core/Tensor.h>

#include "engine/data/array.hpp"

namespace tutti::engine {

/// LibTorch has none of the unsigned types of 16 bits and more.
bool has_tensors(DType dtype) noexcept;
/// Throws Error{invalid} where it has none.
at::ScalarType scalar_type(DType dtype);

/// A tensor on the host over the array's memory, which it keeps. Nobody may write it: clone() it first.
at::Tensor to_tensor(const Array& array);

/// An array over the memory of a contiguous tensor on the host, which it keeps; of any other tensor, over a copy.
/// Throws Error{invalid} for element types that arrays do not have.
Array to_array(const at::Tensor& tensor);

}  // namespace tutti::engine
