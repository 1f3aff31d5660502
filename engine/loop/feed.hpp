// Feed: copies batches to a device through pinned memory on a stream of its own, overlapped with computation on earlier
// batches.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "engine/data/loader.hpp"
#include "tutti/accelerator.hpp"

namespace tutti::engine {

/// A ring of slots in pinned and device memory. send() is called by one loader thread at a time, everything else by the
/// training thread. There are two slots more than batches that the loader prepares ahead: one for the batch in use and
/// one for the batch being copied. So send() reuses a slot only after used() was recorded for its last batch.
class Feed {
 public:
  /// `largest`: for each array of a batch, in order, its largest size in bytes.
  Feed(Accelerator& gpu, int device, const std::vector<std::size_t>& largest, std::size_t ahead);
  ~Feed();
  Feed(const Feed&) = delete;
  Feed& operator=(const Feed&) = delete;

  /// Starts copying a batch and stores its slot in the batch; its arrays no longer have memory. May wait for the slot's
  /// previous copy, not for kernels.
  void send(Batch& batch);

  /// The device address of array `field` of the batch.
  void* field(const Batch& batch, std::size_t field) const noexcept { return device_at(batch.slot) + offsets_[field]; }
  /// The event that a stream must wait for before it reads the batch.
  const Event& arrived(const Batch& batch) const noexcept { return *slots_[batch.slot].arrived; }
  /// The event to record after the last kernel that reads the batch.
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
  std::vector<std::size_t> offsets_;  // offset of each array in a slot, then the size of a slot
  std::size_t slot_bytes_;
  std::vector<Slot> slots_;
  std::shared_ptr<void> pinned_, memory_;
  Owned<Stream> stream_;
  std::size_t sent_ = 0;
};

}  // namespace tutti::engine
