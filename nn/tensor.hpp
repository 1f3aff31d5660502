// Conversion of tensors to buffers. The lowest layer that includes LibTorch.
#pragma once

#include <ATen/core/Tensor.h>

#include "tutti/buffer.hpp"

namespace tutti::nn {

/// The DType of a tensor's elements. Throws Error{unsupported} for complex, bool and quantised tensors.
DType dtype_of(const at::Tensor& tensor);

/// The memory of a contiguous tensor on the CPU or a CUDA device, borrowed: the tensor's storage must outlive the
/// call's Work. A call on a CUDA tensor starts after the work on the stream in its CallOptions. Throws Error{invalid}
/// for any other tensor.
Buffer buffer(const at::Tensor& tensor);

}  // namespace tutti::nn
