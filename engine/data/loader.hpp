// Loader: a thread that makes batches ahead of the training loop.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "engine/data/dataset.hpp"
#include "engine/data/sampler.hpp"

namespace tutti::engine {

/// One rank's part of a global batch, ready for a network.
struct Batch {
  std::size_t step = 0;
  std::size_t count = 0;         ///< samples here
  std::size_t global_count = 0;  ///< samples on all ranks
  std::vector<float> pixels;     ///< count x shape, normalised
  std::vector<std::int64_t> labels;
  std::size_t slot = 0;  ///< where it is on a device, if it was sent there (engine/feed.hpp)
};

/// What is done to a byte image on its way into a batch.
struct Transform {
  float mean = 0, deviation = 1;  ///< pixel -> (pixel / 255 - mean) / deviation
  int shift = 0;                  ///< moves by up to so many pixels each way; 0: not at all
  std::uint64_t seed = 0;

  /// Writes the image; its shift depends on seed, epoch and sample alone, not on the ranks.
  void apply(const Dataset& data, std::size_t sample, std::size_t epoch, float* into) const;
};

/// Prepares the batches of an epoch, at most `depth` ahead, on a thread of its own. next() belongs to one
/// thread. The data set must outlive the loader.
class Loader {
 public:
  /// Something that is done to every batch as soon as it is made, on that thread.
  using Sender = std::function<void(Batch&)>;
  Loader(const Dataset& data, Sampler sampler, const Transform& transform, std::size_t depth = 2, Sender send = {});
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  /// Begins an epoch at its first batch; an unfinished one is dropped.
  void start_epoch(std::size_t epoch);

  /// The next batch, waiting for it if need be; nullopt at the end of the epoch. Rethrows what the thread threw.
  std::optional<Batch> next();

  std::size_t steps() const noexcept { return sampler_.steps(); }

 private:
  void produce(std::size_t epoch);
  Batch make(std::size_t step, std::size_t epoch) const;
  void stop();

  const Dataset& data_;
  Sampler sampler_;
  Transform transform_;
  std::size_t depth_;
  Sender send_;

  std::mutex mutex_;
  std::condition_variable moved_;
  std::deque<Batch> ready_;
  std::exception_ptr failure_;
  bool stopping_ = false;
  std::size_t taken_ = 0;
  std::thread thread_;
};

}  // namespace tutti::engine
