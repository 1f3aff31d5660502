// Tensors as buffers. This is the lowest floor that sees LibTorch.
#pragma once

#include <ATen/core/Tensor.h>

#include "transports/core/buffer.hpp"

namespace tutti::nn {

/// The element type that collectives see. Throws Error{unsupported} for complex, bool and quantised tensors.
DType dtype_of(const at::Tensor& tensor);

/// The memory of a contiguous tensor of the CPU or of CUDA, borrowed: the tensor's storage must outlive the call's
/// Work; a call on a CUDA tensor comes after the stream that its options name. Throws Error{invalid} for any other
/// tensor.
Buffer buffer(const at::Tensor& tensor);

}  // namespace tutti::nn
