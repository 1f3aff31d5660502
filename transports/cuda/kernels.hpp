// What the kernels are asked for. No type of CUDA's host library but the stream and the error.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "transports/core/accelerator.hpp"
#include "transports/core/reduce.hpp"

namespace tutti::cuda {

/// Goes to the kernel as it stands, which takes 4 KiB at most.
struct FoldCall {
  void* into[DeviceWork::most_folded] = {};
  const void* sources[DeviceWork::most_folded] = {};
  int places = 0;  ///< that the result goes to
  int count = 0;   ///< of sources: 2 at least
  std::size_t elements = 0;
  double divisor = 1.0;
};
static_assert(sizeof(FoldCall) <= 4096);

/// As Fold::of(), bit for bit. cudaErrorNotSupported where dtype and op have no meaning together.
cudaError_t fold(DType dtype, Op op, const FoldCall& call, int processors, cudaStream_t stream);

struct ScaleCall {
  void* into = nullptr;
  const void* from = nullptr;
  std::size_t elements = 0;
  double factor = 1.0;
};

/// As scale(), bit for bit.
cudaError_t scale(DType dtype, const ScaleCall& call, int processors, cudaStream_t stream);

}  // namespace tutti::cuda
