// Exchange: how one bucket of gradients reaches the other ranks, beside what is computed meanwhile.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "collectives/api/communicator.hpp"

namespace tutti::nn {

class Site;

struct SyncStats {
  std::size_t collectives = 0;  ///< started for gradients, in all
  std::size_t overlapped = 0;   ///< buckets that left before the last gradient of their backward was there
  std::size_t bytes = 0;        ///< that this rank gave to the collectives, in all
  double wait_seconds = 0;      ///< spent inside finish(): communication that nothing hid
  double exchange_seconds = 0;  ///< from the first bucket's leaving to the last one's arrival, in all
};

/// Collectives on tensors, which begin after what the calling thread has computed so far. Tensors are contiguous, lie
/// where the gradients do, and live until the next advance() of their codec. All ranks make the same calls.
class Exchange {
 public:
  Exchange(Communicator communicator, std::shared_ptr<Site> site, SyncStats& stats);

  int rank() const noexcept { return communicator_.rank(); }
  int size() const noexcept { return communicator_.size(); }

  /// Memory that the calls are fastest with, zeroed. Collective: for when a codec is made.
  at::Tensor allocate(at::IntArrayRef sizes, at::ScalarType type);

  /// `values` become their mean, or another reduction, over the ranks.
  void allreduce(const at::Tensor& values, Reduction op = avg);
  void allreduce(Buffer values, Reduction op);
  /// Row r of `all`, which has a row for each rank, becomes rank r's `mine`.
  void allgather(const at::Tensor& mine, const at::Tensor& all);
  /// Row r of `theirs` becomes the row of rank r's `mine` that has this rank's number.
  void alltoall(const at::Tensor& mine, const at::Tensor& theirs);

  /// Blocks until all calls so far are done. Throws what a call threw.
  void wait();

 private:
  void count(std::size_t bytes);
  Communicator communicator_;
  std::shared_ptr<Site> site_;
  SyncStats& stats_;
  std::vector<Work> open_;
};

}  // namespace tutti::nn
