// GradientSync: averages gradients over the ranks while backward still runs.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "collectives/api/communicator.hpp"
#include "nn/exchange.hpp"
#include "nn/module.hpp"

namespace tutti::nn {

class Compression;

struct BucketOptions {
  std::size_t first_bytes = 64 << 10;  ///< small, so that the first allreduce starts early
  std::size_t cap_bytes = 1 << 20;
  /// What gradients become on their way (nn/compression.hpp); null: they go as they are.
  std::shared_ptr<const Compression> compression = nullptr;
  /// After the first step, buckets are filled in the order in which gradients became ready on rank 0.
  bool reorder = true;
  /// Names of parameters whose gradients are sparse, as of an embedding's `sparse(true)`: they travel as rows, after
  /// backward, and are not compressed.
  std::vector<std::string> sparse = {};
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
/// same calls. One thread at a time; hooks run on autograd's thread. Parameters are dense tensors of one device (their
/// gradients, too, but for those that BucketOptions::sparse names), where
/// the buckets lie too: calls go beside backward's kernels, on a stream of their own. One that is listed more than once
/// (a tied weight) counts once. Each parameter is exchanged exactly once in a step, or finish() throws with its name.
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

  /// What later steps depend on beside the parameters: the order of the buckets (alike on all ranks), and what the
  /// compression keeps of each parameter (this rank's). Tensors are borrowed until the next finish().
  std::vector<NamedTensor> state() const;
  /// Goes on from it. Collective. Throws Error{invalid} where it is of another network or compression.
  void load_state(const std::vector<NamedTensor>& kept);

  /// How often a parameter was exchanged so far. Throws Error{invalid} for a name that is not there.
  std::size_t exchanges(const std::string& name) const;

  std::size_t buckets() const noexcept;
  std::size_t bucket_bytes(std::size_t bucket) const;
  const SyncStats& stats() const noexcept;

 private:
  struct State;
  std::shared_ptr<State> state_;  // shared with the hooks, which autograd may keep for longer
};

}  // namespace tutti::nn
