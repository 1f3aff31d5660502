// GradientSync: averages gradients over the ranks while backward is running.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "nn/exchange.hpp"
#include "nn/module.hpp"
#include "tutti/communicator.hpp"

namespace tutti::nn {

class Compression;

struct BucketOptions {
  std::size_t first_bytes = 64 << 10;  ///< most bytes of the first bucket; small, so that its allreduce starts early
  std::size_t cap_bytes = 1 << 20;     ///< most bytes of the other buckets
  /// The compression of gradients (nn/compression.hpp); null: none.
  std::shared_ptr<const Compression> compression = nullptr;
  /// Rebuild the buckets, after the first step, in the order in which gradients became ready on rank 0.
  bool reorder = true;
  /// Names of parameters with sparse gradients, as of an Embedding with `sparse(true)`. Their rows are exchanged in
  /// finish(), without compression.
  std::vector<std::string> sparse = {};
};

/// Data-parallel gradient averaging, as DistributedDataParallel does it. Call backward as usual, then finish() before
/// the optimizer's step:
///
///     sync.zero_grad();
///     loss(batch).backward();                // a bucket is sent when its last gradient is ready
///     sync.finish();                         // gradients are now the means over all ranks
///     optimizer.step();
///
/// Gradients lie in flat buckets in the communicator's memory (device memory on a GPU); each parameter's grad() is a
/// view into one. Buckets are sent in the same order on all ranks, whatever the order of autograd. Their collectives
/// run on a stream of their own, concurrently with backward's kernels. If a parameter has no gradient on this rank, its
/// gradient counts as zero. If it has none on any rank, it stays without a gradient. A tied weight counts once. Each
/// parameter is exchanged exactly once per step; otherwise finish() throws with its name.
///
/// Parameters are floating-point leaf tensors on one device, with dense gradients except for those in
/// BucketOptions::sparse; parameters that do not require a gradient are skipped. Throws Error{unsupported} for others.
/// All ranks make the same calls in the same order; constructors are collective. One thread at a time; the hooks run on
/// autograd's thread.
class GradientSync {
 public:
  GradientSync(std::vector<NamedTensor> parameters, Communicator communicator, const BucketOptions& options = {});
  GradientSync(torch::nn::Module& module, Communicator communicator, const BucketOptions& options = {});
  /// With a TensorDevice that the caller already has; used by the training engine.
  GradientSync(std::vector<NamedTensor> parameters, Communicator communicator, const BucketOptions& options,
               std::shared_ptr<TensorDevice> tensor_device);
  ~GradientSync();
  GradientSync(const GradientSync&) = delete;
  GradientSync& operator=(const GradientSync&) = delete;

  /// Makes all gradients undefined, so that the next backward starts from none.
  void zero_grad();

  /// Sets the weight of this rank's gradients in the mean for the next backward. If the rank's loss is the mean over
  /// its own samples, this is the rank's share of the global batch. Default 1 / size(). Valid until finish().
  void weight(double share);

  /// Sends the buckets that backward has not sent, and blocks until all gradients hold the means. A rank without
  /// samples calls only this. Throws the error of a failed collective.
  void finish();

  /// While a guard lives, backward accumulates gradients and sends nothing. Destroy it before the last backward of a
  /// step.
  class NoSync {
   public:
    explicit NoSync(GradientSync& sync) noexcept;
    ~NoSync();
    NoSync(const NoSync&) = delete;
    NoSync& operator=(const NoSync&) = delete;

   private:
    GradientSync& sync_;
  };
  [[nodiscard]] NoSync no_sync() noexcept { return NoSync(*this); }

  /// The state that later steps depend on besides the parameters: the order of the buckets (the same on all ranks) and
  /// the compression's state for each parameter (of this rank). The tensors are borrowed until the next finish().
  std::vector<NamedTensor> state() const;
  /// Restores such a state. Collective. Throws Error{invalid} if it belongs to another network or compression.
  void load_state(const std::vector<NamedTensor>& kept);

  /// The number of exchanges of a parameter so far. Throws Error{invalid} for an unknown name or a sparse parameter.
  std::size_t exchanges(const std::string& name) const;

  std::size_t buckets() const noexcept;
  std::size_t bucket_bytes(std::size_t bucket) const;
  const SyncStats& stats() const noexcept;

 private:
  struct State;
  std::shared_ptr<State> state_;  // shared with the hooks, which autograd may keep alive longer
};

}  // namespace tutti::nn
