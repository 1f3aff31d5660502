#include "engine/loop/feed.hpp"

#include <cstring>

namespace tutti::engine {
namespace {

std::vector<std::size_t> offsets_of(const std::vector<std::size_t>& largest) {
  std::vector<std::size_t> offsets{0};
  for (const std::size_t bytes : largest) offsets.push_back(offsets.back() + (bytes + 255) / 256 * 256);
  return offsets;
}

}  // namespace

Feed::Feed(Accelerator& gpu, int device, const std::vector<std::size_t>& largest, std::size_t ahead)
    : gpu_(gpu),
      offsets_(offsets_of(largest)),
      slot_bytes_(offsets_.back()),
      pinned_(gpu.allocate_pinned((ahead + 2) * slot_bytes_)),
      memory_(gpu.allocate(device, (ahead + 2) * slot_bytes_)),
      stream_(gpu, gpu.make_stream(device)) {
  for (std::size_t slot = 0; slot < ahead + 2; ++slot)
    slots_.push_back({Owned<Event>(gpu, gpu.make_event(device)), Owned<Event>(gpu, gpu.make_event(device))});
}

// Waits for copies of batches that were sent and never used.
Feed::~Feed() {
  try {
    gpu_.synchronize(*stream_);
  } catch (const Error&) {  // a failed device does not copy any more
  }
}

void Feed::send(Batch& batch) {
  batch.slot = sent_++ % slots_.size();
  const Slot& slot = slots_[batch.slot];
  gpu_.synchronize(*slot.arrived);  // then the slot's pinned memory may be overwritten
  std::byte* const host = host_at(batch.slot);
  std::byte* const device = device_at(batch.slot);
  gpu_.wait(*stream_, *slot.used);
  std::size_t field = 0;
  for (auto& [name, array] : batch) {
    const std::size_t offset = offsets_.at(field), bytes = array.byte_count();
    if (offset + bytes > offsets_.at(++field))
      throw Error(Code::internal,
                  "'" + name + "' of a batch (" + array.describe() + ") is larger than its place on the device");
    if (bytes > 0) {
      std::memcpy(host + offset, array.bytes().data(), bytes);
      gpu_.copy(*stream_, device + offset, host + offset, bytes);
    }
    array = array.without_memory();
  }
  gpu_.record(*slot.arrived, *stream_);
}

}  // namespace tutti::engine
