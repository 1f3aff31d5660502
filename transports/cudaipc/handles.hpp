// Handles: exports device memory to other processes, and opens theirs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>

#include "tutti/accelerator.hpp"

namespace tutti::cudaipc {

/// A location in a rank's device memory, as sent to other ranks. Plain data.
struct Reference {
  std::uint64_t id = 0;      ///< of the allocation, unique in its process; 0: none
  std::uint64_t base = 0;    ///< the allocation's address in its process
  std::uint64_t bytes = 0;   ///< size of the allocation
  std::uint64_t offset = 0;  ///< from `base`
  MemoryHandle handle;
};

/// A random id of this process. A forked child has another one.
std::uint64_t name_of_this_process();

/// Exports this rank's memory; one handle per allocation.
class Shared {
 public:
  explicit Shared(Accelerator& accelerator) : accelerator_(accelerator) {}
  /// Throws Error if the runtime cannot export this memory.
  Reference of(const void* memory);
  std::size_t asked() const noexcept { return asked_; }  ///< number of handles made so far

 private:
  struct Known {
    std::uint64_t id;
    MemoryHandle handle;
  };
  Accelerator& accelerator_;
  std::map<const std::byte*, Known> known_;  // by base address; a later allocation at the same address has another id
  std::size_t asked_ = 0;
};

class Mappings;

/// An allocation of another process that is open in this process. After the last owner has dropped it, another thread
/// closes it, because closing may wait for the device.
class Mapping {
 public:
  /// The address in this process of a place in this allocation.
  std::byte* at(const Reference& place) const noexcept { return seen_ + place.offset; }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping();

 private:
  friend class Mappings;
  struct Range {
    std::uint64_t owner, base, bytes;  // base: address in the owner's process
    bool overlaps(const Range& other) const noexcept {
      return owner == other.owner && base < other.base + other.bytes && other.base < base + bytes;
    }
  };
  Mapping(Mappings& among, std::list<Range>::iterator range, std::byte* seen)
      : among_(among), range_(range), seen_(seen) {}

  Mappings& among_;
  const std::list<Range>::iterator range_;
  std::byte* const seen_;
};

/// The allocations of other processes that are open on one device, for all communicators. The driver may refuse to open
/// an allocation twice, or while an older allocation at overlapping addresses of the same owner is open. So open()
/// closes the older one first, as soon as no call uses it. An allocation is identified by its id, because new memory
/// may have the address of freed memory. Any thread.
class Mappings {
 public:
  static constexpr std::size_t most = 64;  ///< number of kept mappings above which unused ones are closed

  /// The mappings of a device in this process; never destroyed.
  static Mappings& of(Accelerator& accelerator, int device);
  Mappings(Accelerator& accelerator, int device) : accelerator_(accelerator), device_(device) {}

  /// Count the communicators that use this object. When the last one leaves, no unused mapping is kept.
  void enter();
  void leave();

  enum class Then { keep, close };  ///< what happens to a mapping when its last user drops it
  /// Opens the allocation of `place`, which belongs to the process `owner`, or returns the mapping that was kept. Null
  /// while a mapping at overlapping addresses of the owner is in use or being closed; call again later. Throws Error.
  std::shared_ptr<const Mapping> open(std::uint64_t owner, const Reference& place, Then then = Then::keep);

 private:
  friend class Mapping;
  struct Kept {
    std::uint64_t owner, id;
    std::shared_ptr<const Mapping> mapping;
  };
  void make_room();

  Accelerator& accelerator_;
  const int device_;
  std::mutex mutex_;
  std::list<Mapping::Range> open_;  // including those being closed
  std::list<Kept> kept_;            // most recently used first
  int communicators_ = 0;
};

}  // namespace tutti::cudaipc
