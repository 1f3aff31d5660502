// The producing thread, and the work it does per image.
#include "engine/data/loader.hpp"

#include <algorithm>
#include <utility>

#include "engine/data/random.hpp"

namespace tutti::engine {

void Transform::apply(const Dataset& data, std::size_t sample, std::size_t epoch, float* into) const {
  int down = 0, right = 0;
  if (shift > 0) {
    Random random = Random::keyed(seed, 0x517f7, epoch, sample);
    const auto choices = static_cast<std::uint64_t>(2 * shift + 1);
    down = static_cast<int>(random.below(choices)) - shift;
    right = static_cast<int>(random.below(choices)) - shift;
  }
  const auto height = static_cast<int>(data.shape.height), width = static_cast<int>(data.shape.width);
  const float scale = 1.0F / (255.0F * deviation), offset = -mean / deviation;
  const std::uint8_t* plane = data.image(sample).data();
  for (std::size_t c = 0; c < data.shape.channels; ++c, plane += height * width)
    for (int row = 0; row < height; ++row)
      for (int column = 0; column < width; ++column) {
        const int y = row - down, x = column - right;
        const bool inside = y >= 0 && y < height && x >= 0 && x < width;
        *into++ = static_cast<float>(inside ? plane[y * width + x] : 0) * scale + offset;
      }
}

Loader::Loader(const Dataset& data, Sampler sampler, const Transform& transform, std::size_t depth, Sender send)
    : data_(data),
      sampler_(std::move(sampler)),
      transform_(transform),
      depth_(std::max<std::size_t>(depth, 1)),
      send_(std::move(send)) {}

Loader::~Loader() { stop(); }

void Loader::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  moved_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Loader::start_epoch(std::size_t epoch) {
  stop();
  sampler_.start_epoch(epoch);
  ready_.clear();
  failure_ = nullptr;
  stopping_ = false;
  taken_ = 0;
  thread_ = std::thread([this, epoch] { produce(epoch); });
}

void Loader::produce(std::size_t epoch) {
  try {
    for (std::size_t step = 0; step < sampler_.steps(); ++step) {
      Batch batch = make(step, epoch);
      if (send_) send_(batch);
      std::unique_lock lock(mutex_);
      moved_.wait(lock, [this] { return stopping_ || ready_.size() < depth_; });
      if (stopping_) return;
      ready_.push_back(std::move(batch));
      lock.unlock();
      moved_.notify_all();
    }
  } catch (...) {
    const std::lock_guard lock(mutex_);
    failure_ = std::current_exception();
    moved_.notify_all();
  }
}

Batch Loader::make(std::size_t step, std::size_t epoch) const {
  const auto samples = sampler_.local(step);
  const std::size_t width = data_.shape.pixels();
  Batch batch{step, samples.size(), sampler_.global_count(step), std::vector<float>(samples.size() * width), {}, 0};
  for (std::size_t i = 0; i < samples.size(); ++i) {
    transform_.apply(data_, samples[i], epoch, batch.pixels.data() + i * width);
    batch.labels.push_back(data_.labels[samples[i]]);
  }
  return batch;
}

std::optional<Batch> Loader::next() {
  if (taken_ == sampler_.steps()) return std::nullopt;
  std::unique_lock lock(mutex_);
  moved_.wait(lock, [this] { return failure_ || !ready_.empty(); });
  if (ready_.empty()) std::rethrow_exception(failure_);
  Batch batch = std::move(ready_.front());
  ready_.pop_front();
  ++taken_;
  lock.unlock();
  moved_.notify_all();
  return batch;
}

}  // namespace tutti::engine
