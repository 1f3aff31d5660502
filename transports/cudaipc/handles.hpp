// Handles: device memory of this process as other processes may open it, and memory of theirs as it is open here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>

#include "transports/core/accelerator.hpp"

namespace tutti::cudaipc {

/// A place in one rank's memory, as it goes to another rank. Plain data.
struct Reference {
  std::uint64_t id = 0;      ///< of the allocation in its process, never given twice; 0: nothing
  std::uint64_t base = 0;    ///< where its process sees the allocation
  std::uint64_t offset = 0;  ///< into it
  MemoryHandle handle;
};

/// What this rank shares: a handle is asked for once per allocation.
class Shared {
 public:
  explicit Shared(Accelerator& accelerator) : accelerator_(accelerator) {}
  /// Throws Error where the runtime cannot share this memory.
  Reference of(const void* memory);
  std::size_t asked() const noexcept { return asked_; }  ///< handles, so far

 private:
  struct Known {
    std::uint64_t id;
    MemoryHandle handle;
  };
  Accelerator& accelerator_;
  std::map<const std::byte*, Known> known_;  // by base; another allocation there has another id
  std::size_t asked_ = 0;
};

/// What is open of one other rank's memory. An entry is found by the allocation's id, so it cannot stand for memory
/// that was freed; it is closed when the other rank shows another allocation at the same base, and when there are too
/// many.
class Opened {
 public:
  static constexpr std::size_t most = 64;  // entries

  Opened(Accelerator& accelerator, int device) : accelerator_(accelerator), device_(device) {}
  Opened(Opened&& other) noexcept : accelerator_(other.accelerator_), device_(other.device_) {
    entries_.swap(other.entries_);
  }
  ~Opened();
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;

  /// Where the place is seen here, for the call number `call`. What only calls up to `ended` used may be closed. Throws
  /// Error.
  std::byte* at(const Reference& place, std::uint64_t call, std::uint64_t ended);
  std::size_t size() const noexcept { return entries_.size(); }

 private:
  struct Entry {
    std::uint64_t id, base;
    std::byte* seen;
    std::uint64_t used;  // by this call at last
  };
  void tidy(std::uint64_t base, std::uint64_t ended);

  Accelerator& accelerator_;
  const int device_;
  std::list<Entry> entries_;  // lately used ones first
};

}  // namespace tutti::cudaipc
