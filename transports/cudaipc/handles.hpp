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

/// An id that no other process has, including children of this one.
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
  std::map<const std::byte*, Known> known_;  // by base address; a new allocation there has a new id
  std::size_t asked_ = 0;
};

class Mappings;

/// An allocation of another process, opened here. It is closed after the last owner drops it, on another thread,
/// because closing may wait for the device.
class Mapping {
 public:
  /// The address here of a place in this allocation.
  std::byte* at(const Reference& place) const noexcept { return seen_ + place.offset; }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping();

 private:
  friend class Mappings;
  struct Range {
    std::uint64_t owner, base, bytes;  // address in the owner's process
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

/// All allocations of other processes that are open on one device, for all communicators. The driver may refuse to
/// open an allocation twice, or while an older one at overlapping addresses of its owner is open; that one is closed
/// first, when no call uses it. Allocations are identified by their ids, so freed memory is not confused with new
/// memory at its address. Any thread.
class Mappings {
 public:
  static constexpr std::size_t most = 64;  ///< maximum number kept without a user

  /// The one of the device; it is never destroyed.
  static Mappings& of(Accelerator& accelerator, int device);
  Mappings(Accelerator& accelerator, int device) : accelerator_(accelerator), device_(device) {}

  /// Count the communicators that use it; without any, unused mappings are not kept.
  void enter();
  void leave();

  enum class Then { keep, close };  ///< when the last user drops it
  /// Opens the allocation `place` of the process `owner`, or returns the mapping of it that was kept. Null while a mapping
  /// at overlapping addresses of the owner is still in use or being closed; call again. Throws Error.
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
