#include "engine/feed.hpp"

#include <cstring>

namespace tutti::engine {
namespace {

std::size_t aligned(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

}  // namespace

Feed::Feed(Accelerator& gpu, int device, const Largest& largest, std::size_t ahead)
    : gpu_(gpu),
      pixel_bytes_(aligned(largest.pixels * sizeof(float))),
      slot_bytes_(pixel_bytes_ + aligned(largest.labels * sizeof(std::int64_t))),
      pinned_(gpu.allocate_pinned((ahead + 2) * slot_bytes_)),
      memory_(gpu.allocate(device, (ahead + 2) * slot_bytes_)),
      stream_(gpu, gpu.make_stream(device)) {
  for (std::size_t slot = 0; slot < ahead + 2; ++slot)
    slots_.push_back({Owned<Event>(gpu, gpu.make_event(device)), Owned<Event>(gpu, gpu.make_event(device))});
}

// Copies may be on their way, of batches that nobody took.
Feed::~Feed() {
  try {
    gpu_.synchronize(*stream_);
  } catch (const Error&) {  // a device that does no more copies nothing either
  }
}

void Feed::send(Batch& batch) {
  batch.slot = sent_++ % slots_.size();
  const Slot& slot = slots_[batch.slot];
  gpu_.synchronize(*slot.arrived);  // the pinned half is free again
  const std::size_t pixels = batch.pixels.size() * sizeof(float), labels = batch.labels.size() * sizeof(std::int64_t);
  std::byte* const host = host_at(batch.slot);
  std::byte* const device = device_at(batch.slot);
  gpu_.wait(*stream_, *slot.used);
  if (batch.count > 0) {
    std::memcpy(host, batch.pixels.data(), pixels);
    std::memcpy(host + pixel_bytes_, batch.labels.data(), labels);
    gpu_.copy(*stream_, device, host, pixels);
    gpu_.copy(*stream_, device + pixel_bytes_, host + pixel_bytes_, labels);
  }
  gpu_.record(*slot.arrived, *stream_);
  batch.pixels = {};
  batch.labels = {};
}

}  // namespace tutti::engine
