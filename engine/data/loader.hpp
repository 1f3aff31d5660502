// Loader: threads that make batches ahead of the training loop.
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

/// These samples, transformed and one below the other. Of no samples, it has arrays with no rows, in the shapes of
/// sample draw.sample. Whatever is thrown on the way becomes an Error that names the sample, of the same code where
/// there was one.
Batch collate(const Dataset& data, std::span<const std::uint32_t> ids, std::span<const Transform> transforms,
              const Draw& draw = {});

/// The next `count` samples of a stream, or as many as it still has: no samples at its end. Draws have their numbers in
/// the stream, from draw.sample on.
Batch collate(SampleStream& stream, std::size_t count, std::span<const Transform> transforms, const Draw& draw = {});

/// Prepares the batches of an epoch ahead, on threads of its own. The batches and their order are the same for any
/// number of threads. next(), start_epoch() and resume() belong to one thread.
class Loader {
 public:
  struct Options {
    std::size_t depth = 2;    ///< batches made ahead of the one that next() gave last
    std::size_t threads = 1;  ///< each makes a batch at a time, so more than `depth` of them are of no use
    std::uint64_t seed = 0;   ///< of the draws
  };
  /// Something that is done to every batch as soon as it is made: in the batches' order, one at a time, on the thread
  /// that made it.
  using Sender = std::function<void(Batch&)>;
  Loader(std::shared_ptr<const Dataset> data, Sampler sampler, std::vector<Transform> transforms, Options options,
         Sender send = {});
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  /// Begins an epoch at its first batch; an unfinished one is dropped.
  void start_epoch(std::size_t epoch) { resume({.epoch = epoch}); }
  /// Goes on in mid-epoch, as Sampler::resume().
  void resume(const Progress& progress);

  /// The next batch, waiting for it if need be; nullopt at the end of the epoch. Rethrows what a thread threw, after
  /// the batches before that one.
  std::optional<Batch> next();

  /// What to give to resume() so that it goes on after the batch that next() gave last.
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
  std::exception_ptr failure_;          // of step failed_
  std::size_t failed_ = 0;
  bool stopping_ = false;
  std::size_t claimed_ = 0, sent_ = 0, taken_ = 0;  // the next step of each kind
  std::uint32_t like_ = 0;                          // a sample of this rank's, whose shapes empty batches have
  double waited_ = 0;
  std::vector<std::thread> threads_;
};

}  // namespace tutti::engine
