// Threads claim steps one by one and deliver the batches in the order of the steps.
#include "engine/data/loader.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "tutti/status.hpp"
#include "tutti/threads.hpp"

namespace tutti::engine {
namespace {

Sample transformed(Sample sample, std::span<const Transform> transforms, const Draw& draw) {
  for (const Transform& transform : transforms) transform(sample, draw);
  return sample;
}

/// Calls `read()` and adds the sample's id to errors.
template <class Read>
Sample read_sample(SampleId id, Read&& read) {
  const std::string which = "sample " + std::to_string(id) + ": ";
  try {
    return read();
  } catch (const Error& error) {
    throw Error(error.code(), which + error.what(), error.culprit());
  } catch (const std::exception& error) {
    throw Error(Code::internal, which + error.what());
  }
}

Array stacked(const std::string& name, const std::vector<Sample>& samples, std::span<const SampleId> ids) {
  const Array& first = samples[0][name];
  ArrayShape shape = first.shape();
  shape.insert(shape.begin(), static_cast<std::int64_t>(samples.size()));
  return Array::make(first.dtype(), shape, [&](std::byte* into) {
    for (std::size_t i = 0; i < samples.size(); ++i) {
      const Array& each = samples[i][name];
      if (each.dtype() != first.dtype() || each.shape() != first.shape())
        throw Error(Code::invalid, "sample " + std::to_string(ids[i]) + ": '" + name + "' is " + each.describe() +
                                       ", and that of sample " + std::to_string(ids[0]) + " " + first.describe() +
                                       ": make them alike, as by a crop");
      if (const auto bytes = each.bytes(); !bytes.empty()) std::memcpy(into, bytes.data(), bytes.size());
      into += each.byte_count();
    }
  });
}

Batch stack(const std::vector<Sample>& samples, std::vector<SampleId> ids) {
  Batch batch;
  if (!samples.empty())
    for (const auto& [name, array] : samples[0]) batch[name] = stacked(name, samples, ids);
  batch.count = samples.size();
  batch.weights.assign(samples.size(), 1.0F);
  batch.ids = std::move(ids);
  return batch;
}

}  // namespace

Batch collate(const Dataset& data, std::span<const SampleId> ids, std::span<const Transform> transforms,
              const Draw& draw) {
  const auto read = [&](SampleId id) {
    Draw own = draw;
    own.sample = id;
    return read_sample(id, [&] { return transformed(data.get(id), transforms, own); });
  };
  std::vector<Sample> samples;
  for (const SampleId id : ids) samples.push_back(read(id));
  Batch batch = stack(samples, {ids.begin(), ids.end()});
  if (ids.empty())
    for (const auto& [name, array] : read(draw.sample)) {
      ArrayShape shape = array.shape();
      shape.insert(shape.begin(), 0);
      batch[name] = Array(array.dtype(), shape, nullptr);
    }
  return batch;
}

Batch collate(SampleStream& stream, std::size_t count, std::span<const Transform> transforms, const Draw& draw) {
  std::vector<Sample> samples;
  std::vector<SampleId> ids;
  Draw own = draw;
  for (; samples.size() < count; ++own.sample) {
    bool ended = false;
    Sample sample = read_sample(own.sample, [&] {
      std::optional<Sample> next = stream.next();
      ended = !next;
      return ended ? Sample() : transformed(*std::move(next), transforms, own);
    });
    if (ended) break;
    samples.push_back(std::move(sample));
    ids.push_back(own.sample);
  }
  return stack(samples, std::move(ids));
}

Loader::Loader(std::shared_ptr<const Dataset> data, Sampler sampler, std::vector<Transform> transforms, Options options,
               Sender send)
    : data_(std::move(data)),
      sampler_(std::move(sampler)),
      transforms_(std::move(transforms)),
      options_{std::max<std::size_t>(options.depth, 1), std::max<std::size_t>(options.threads, 1), options.seed},
      send_(std::move(send)) {}

Loader::~Loader() { stop(); }

void Loader::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  moved_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

void Loader::resume(const Progress& progress) {
  stop();
  sampler_.resume(progress);
  ready_.clear();
  failure_ = nullptr;
  stopping_ = false;
  claimed_ = sent_ = taken_ = sampler_.first_step();
  data_->expect([this](const std::function<void(SampleId)>& use) {
    for (std::size_t step = taken_; step < sampler_.steps(); ++step) std::ranges::for_each(sampler_.local(step), use);
  });
  like_ = sampler_.last().value_or(0);
  for (std::size_t i = 0; i < std::min(options_.threads, options_.depth); ++i)
    threads_.push_back(start_thread("reads samples", [this, epoch = progress.epoch] { work(epoch); }));
}

void Loader::work(std::size_t epoch) {
  std::unique_lock lock(mutex_);
  for (;;) {
    const auto may_claim = [this] { return claimed_ == sampler_.steps() || claimed_ < taken_ + options_.depth; };
    moved_.wait(lock, [&] { return stopping_ || failure_ || may_claim(); });
    if (stopping_ || failure_ || claimed_ == sampler_.steps()) return;
    const std::size_t step = claimed_++;
    lock.unlock();
    try {
      Batch batch = make(step, epoch);
      lock.lock();
      const auto in_vain = [&] { return stopping_ || (failure_ && failed_ < step); };
      moved_.wait(lock, [&] { return in_vain() || sent_ == step; });
      if (in_vain()) return;
      if (send_) {
        lock.unlock();
        send_(batch);
        lock.lock();
      }
      ready_.emplace(step, std::move(batch));
      ++sent_;
    } catch (...) {
      if (!lock.owns_lock()) lock.lock();
      if (!failure_ || step < failed_) {
        failure_ = std::current_exception();
        failed_ = step;
      }
    }
    moved_.notify_all();
  }
}

Batch Loader::make(std::size_t step, std::size_t epoch) const {
  Batch batch = collate(*data_, sampler_.local(step), transforms_,
                        {.seed = options_.seed, .epoch = epoch, .step = step, .sample = like_});
  batch.step = step;
  batch.global_count = sampler_.global_count(step);
  batch.global_distinct = sampler_.global_distinct(step);
  for (std::size_t i = sampler_.distinct(step); i < batch.count; ++i) batch.weights[i] = 0;
  batch.pieces = sampler_.pieces(step);
  return batch;
}

std::optional<Batch> Loader::next() {
  if (taken_ == sampler_.steps()) return std::nullopt;
  const auto begin = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex_);
  moved_.wait(lock, [this] { return ready_.count(taken_) > 0 || (failure_ && failed_ == taken_); });
  waited_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (ready_.count(taken_) == 0) std::rethrow_exception(failure_);
  Batch batch = std::move(ready_.extract(taken_).mapped());
  ++taken_;
  lock.unlock();
  moved_.notify_all();
  return batch;
}

}  // namespace tutti::engine
