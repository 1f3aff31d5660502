// Exchange: the collectives of one bucket of gradients, which run concurrently with backward.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "tutti/communicator.hpp"

namespace tutti::nn {

class TensorDevice;

struct SyncStats {
  std::size_t collectives = 0;  ///< number of collectives started for gradients
  std::size_t overlapped = 0;   ///< buckets that were sent before backward had produced its last gradient
  std::size_t bytes = 0;        ///< bytes that this rank passed to these collectives
  double wait_seconds = 0;      ///< time that finish() waited for communication that was not hidden by computation
  /// time from sending the first bucket to the end of the last collective, summed over the steps
  double exchange_seconds = 0;
};

/// Collectives on tensors. A collective starts after the kernels that the calling thread has launched so far. Tensors
/// are contiguous, on the device of the gradients or on the CPU, and must live until the codec's next advance(). All
/// ranks make the same calls in the same order.
class Exchange {
 public:
  Exchange(Communicator communicator, std::shared_ptr<TensorDevice> tensor_device, SyncStats& stats);

  int rank() const noexcept { return communicator_.rank(); }
  int size() const noexcept { return communicator_.size(); }

  /// Zeroed memory from Communicator::allocate(), on which calls are fastest. Collective; call it when a codec is made.
  at::Tensor allocate(at::IntArrayRef sizes, at::ScalarType type);

  /// Replaces `values` by their mean, or another reduction, over the ranks.
  void allreduce(const at::Tensor& values, Reduction op = avg);
  /// The same for memory of the TensorDevice. The caller must have called TensorDevice::note_computed() before.
  void allreduce(Buffer values, Reduction op);
  /// Row r of `all` receives the `mine` of rank r; `all` has one row per rank.
  void allgather(const at::Tensor& mine, const at::Tensor& all);
  /// Row r of `theirs` receives row rank() of the `mine` of rank r.
  void alltoall(const at::Tensor& mine, const at::Tensor& theirs);

  /// Blocks until all calls so far are done. Throws the error of a failed call.
  void wait();

 private:
  void count(std::size_t bytes);
  Communicator communicator_;
  std::shared_ptr<TensorDevice> tensor_device_;
  SyncStats& stats_;
  std::vector<Work> open_;
};

}  // namespace tutti::nn
