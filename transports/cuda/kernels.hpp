// The interface of the kernels. Uses no types of CUDA's host library except the stream and the error.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "tutti/accelerator.hpp"
#include "tutti/reduce.hpp"

namespace tutti::cuda {

/// Passed to the kernel by value. The parameters of a kernel may have 4 KiB.
struct FoldCall {
  void* into[DeviceWork::most_folded] = {};
  const void* sources[DeviceWork::most_folded] = {};
  int places = 0;  ///< number of destinations
  int count = 0;   ///< number of sources, at least 2
  std::size_t elements = 0;
  double divisor = 1.0;
};
static_assert(sizeof(FoldCall) <= 4096);

/// Enqueues a fold. The results have the same bits as those of Fold::of() on the host. `processors`: the device's
/// multiprocessors. Returns cudaErrorNotSupported if `op` is not defined for `dtype`.
cudaError_t fold(DType dtype, Op op, const FoldCall& call, int processors, cudaStream_t stream);

struct ScaleCall {
  void* into = nullptr;
  const void* from = nullptr;
  std::size_t elements = 0;
  double factor = 1.0;
};

/// Enqueues a scaling. The results have the same bits as those of scale() on the host.
cudaError_t scale(DType dtype, const ScaleCall& call, int processors, cudaStream_t stream);

}  // namespace tutti::cuda
