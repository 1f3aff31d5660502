// Conversion between Array and LibTorch tensors, without a copy where possible. Only training needs LibTorch.
#pragma once

#include <ATen/core/Tensor.h>

#include "engine/data/array.hpp"

namespace tutti::engine {

/// False for unsigned types of 16 bits and more, which LibTorch does not have.
bool has_tensors(DType dtype) noexcept;
/// The LibTorch type. Throws Error{invalid} if there is none.
at::ScalarType scalar_type(DType dtype);

/// The element type of an array of this tensor's elements. Throws Error{invalid} if there is none.
DType array_dtype(const at::Tensor& tensor);

/// A host tensor that shares the array's memory and keeps it alive. It must not be written: clone() it first.
at::Tensor to_tensor(const Array& array);

/// An array that shares the memory of a contiguous host tensor and keeps it alive; a copy of any other tensor. Throws
/// Error{invalid} for element types that Array does not have.
Array to_array(const at::Tensor& tensor);

}  // namespace tutti::engine
