// Loader: threads that prepare batches ahead of the training loop.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "engine/data/dataset.hpp"
#include "engine/data/sampler.hpp"
#include "engine/data/transform.hpp"

namespace tutti::engine {

/// The transformed samples `ids`, stacked into a batch. Without ids the batch has arrays with zero rows in the shapes
/// of sample draw.sample. Exceptions are rethrown as an Error that names the sample, with the same code if they were an
/// Error.
Batch collate(const Dataset& data, std::span<const SampleId> ids, std::span<const Transform> transforms,
              const Draw& draw = {});

/// The next `count` samples of a stream, fewer at its end. Samples are numbered from draw.sample on.
Batch collate(SampleStream& stream, std::size_t count, std::span<const Transform> transforms, const Draw& draw = {});

/// Prepares the batches of an epoch ahead of time on its own threads. The batches and their order do not depend on the
/// number of threads. next(), start_epoch() and resume() are called by one thread.
class Loader {
 public:
  struct Options {
    std::size_t depth = 2;    ///< number of batches prepared ahead of the last one that next() returned
    std::size_t threads = 1;  ///< each prepares one batch at a time, so more than `depth` are of no use
    std::uint64_t seed = 0;   ///< of the random choices in transforms
  };
  /// Called for every batch when it is complete: in order, one batch at a time, on the thread that made it.
  using Sender = std::function<void(Batch&)>;
  Loader(std::shared_ptr<const Dataset> data, Sampler sampler, std::vector<Transform> transforms, Options options,
         Sender send = {});
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  /// Starts an epoch from its first batch; an unfinished epoch is abandoned.
  void start_epoch(std::size_t epoch) { resume({.epoch = epoch}); }
  /// Continues in the middle of an epoch; see Sampler::resume().
  void resume(const Progress& progress);

  /// The next batch, after waiting for it if needed; nullopt at the end of the epoch. Rethrows an error of a loader
  /// thread after the batches before the failed one have been returned.
  std::optional<Batch> next();

  /// The progress for resume() to continue after the last batch that next() returned.
  Progress progress() const { return sampler_.progress(taken_); }
  std::size_t first_step() const noexcept { return sampler_.first_step(); }
  std::size_t steps() const noexcept { return sampler_.steps(); }  ///< of the whole epoch
  /// Seconds that next() has waited, over all epochs.
  double waited() const noexcept { return waited_; }

 private:
  void work(std::size_t epoch);
  Batch make(std::size_t step, std::size_t epoch) const;
  void stop();

  const std::shared_ptr<const Dataset> data_;
  Sampler sampler_;
  const std::vector<Transform> transforms_;
  const Options options_;
  const Sender send_;

  std::mutex mutex_;
  std::condition_variable moved_;
  std::map<std::size_t, Batch> ready_;  // by step
  std::exception_ptr failure_;          // the error in step failed_
  std::size_t failed_ = 0;
  bool stopping_ = false;
  std::size_t claimed_ = 0, sent_ = 0, taken_ = 0;  // the next step to be claimed, sent and returned
  SampleId like_ = 0;                               // a sample of this rank, whose shapes empty batches use
  double waited_ = 0;
  std::vector<std::thread> threads_;
};

}  // namespace tutti::engine
