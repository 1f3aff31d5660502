// GradientSync: averages gradients over the ranks while backward still runs.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "collectives/communicator.hpp"
#include "nn/module.hpp"

namespace tutti::nn {

class Site;

struct BucketOptions {
  std::size_t first_bytes = 64 << 10;  ///< small, so that the first allreduce starts early
  std::size_t cap_bytes = 1 << 20;
};

struct SyncStats {
  std::size_t collectives = 0;  ///< started, in all
  std::size_t overlapped = 0;   ///< of these, before the last gradient of their backward was there
  double wait_seconds = 0;      ///< spent inside finish(): communication that nothing hid
  double exchange_seconds = 0;  ///< from the first bucket's leaving to the last one's arrival, in all
};

/// Data-parallel gradients, in two verbs: backward as always, then finish() before the optimizer's step.
///
///     sync.zero_grad();
///     loss(batch).backward();                // buckets leave as their last gradient arrives
///     sync.finish();                         // gradients are now the means over all ranks
///     optimizer.step();
///
/// Gradients lie in flat buckets in the communicator's memory, where a parameter's grad() is a view.
/// Buckets always leave in one order, whatever order autograd takes. A parameter without a
/// gradient here counts as zero; one that has none on any rank is left without. All ranks make the
/// same calls. One thread at a time; hooks run on autograd's thread. Parameters are dense tensors of one device, where
/// the buckets lie too: calls go beside backward's kernels, on a stream of their own. One that is listed more than once
/// (a tied weight) counts once.
class GradientSync {
 public:
  GradientSync(std::vector<NamedTensor> parameters, Communicator communicator, const BucketOptions& options = {});
  GradientSync(torch::nn::Module& module, Communicator communicator, const BucketOptions& options = {});
  /// At a Site that the caller has already, for the engine.
  GradientSync(std::vector<NamedTensor> parameters, Communicator communicator, const BucketOptions& options,
               std::shared_ptr<Site> site);
  ~GradientSync();
  GradientSync(const GradientSync&) = delete;
  GradientSync& operator=(const GradientSync&) = delete;

  /// Forgets the gradients, so that the next backward starts from none.
  void zero_grad();

  /// The factor of this rank's gradients in the mean, for the backward to come: its share of the global
  /// batch where its loss is the mean over its own part. Default 1 / size. Lasts until finish().
  void weight(double share);

  /// Sends what is left, and waits. A rank without any samples calls only this. Throws what a collective threw.
  void finish();

  /// While it lives, backward only accumulates: nothing is sent. End it before the last backward of a step.
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

  std::size_t buckets() const noexcept;
  std::size_t bucket_bytes(std::size_t bucket) const;
  const SyncStats& stats() const noexcept;

 private:
  struct State;
  std::shared_ptr<State> state_;  // shared with the hooks, which autograd may keep for longer
};

}  // namespace tutti::nn
