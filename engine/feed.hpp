// Feed: batches on their way to a device, by pinned memory and a stream of their own, while earlier ones are computed
// on.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "engine/data/loader.hpp"
#include "transports/core/accelerator.hpp"

namespace tutti::engine {

/// Slots of pinned memory and of the device's, taken in turns. send() is called by one thread of the loader at a time,
/// the rest by the training one. There are two slots more than the loader prepares ahead: the one that is computed on,
/// and the one that is on its way; so send() comes to a slot again only after used() was recorded for what was there.
class Feed {
 public:
  /// `largest`: for each array of a batch, in its order, the most bytes that it can have.
  Feed(Accelerator& gpu, int device, const std::vector<std::size_t>& largest, std::size_t ahead);
  ~Feed();
  Feed(const Feed&) = delete;
  Feed& operator=(const Feed&) = delete;

  /// Puts the batch on its way; its slot is noted in it, and its arrays are without memory then. Waits for a copy of
  /// long ago, but not for the device's computing.
  void send(Batch& batch);

  /// Where array `field` of the batch is on the device.
  void* field(const Batch& batch, std::size_t field) const noexcept { return device_at(batch.slot) + offsets_[field]; }
  /// What a stream is to wait for before it reads the batch.
  const Event& arrived(const Batch& batch) const noexcept { return *slots_[batch.slot].arrived; }
  /// To be recorded when nothing reads it any more.
  const Event& used(const Batch& batch) const noexcept { return *slots_[batch.slot].used; }

 private:
  struct Slot {
    Owned<Event> arrived, used;
  };
  std::byte* host_at(std::size_t slot) const noexcept {
    return static_cast<std::byte*>(pinned_.get()) + slot * slot_bytes_;
  }
  std::byte* device_at(std::size_t slot) const noexcept {
    return static_cast<std::byte*>(memory_.get()) + slot * slot_bytes_;
  }

  Accelerator& gpu_;
  std::vector<std::size_t> offsets_;  // of the arrays in a slot, and the slot's end
  std::size_t slot_bytes_;
  std::vector<Slot> slots_;
  std::shared_ptr<void> pinned_, memory_;
  Owned<Stream> stream_;
  std::size_t sent_ = 0;
};

}  // namespace tutti::engine
