// Handles: device memory of this process as other processes may open it, and memory of theirs as it is open here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>

#include "transports/core/accelerator.hpp"

namespace tutti::cudaipc {

/// A place in one rank's memory, as it goes to another rank. Plain data.
struct Reference {
  std::uint64_t id = 0;      ///< of the allocation in its process, never given twice; 0: nothing
  std::uint64_t base = 0;    ///< where its process sees the allocation
  std::uint64_t bytes = 0;   ///< of the allocation
  std::uint64_t offset = 0;  ///< into it
  MemoryHandle handle;
};

/// A number that no other process has, this one's children neither.
std::uint64_t name_of_this_process();

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

class Mappings;

/// An allocation of another process, as it is open here. Whoever has one may use it; after the last one it is closed,
/// elsewhere, as that may wait for the device.
class Mapping {
 public:
  /// Where the place is seen, which is in this allocation.
  std::byte* at(const Reference& place) const noexcept { return seen_ + place.offset; }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping();

 private:
  friend class Mappings;
  struct Range {
    std::uint64_t owner, base, bytes;  // where the owner sees it
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

/// What this process has open of others' memory on one device, for all its communicators: the driver may refuse to open
/// an allocation twice, and to open one while another is open that its owner had at some of its addresses before. Those
/// are closed first, once no call uses them. An allocation is found by its id, so it cannot stand for memory that was
/// freed. Any thread.
class Mappings {
 public:
  static constexpr std::size_t most = 64;  ///< that are kept though nobody uses them

  /// The one of the device; it lives as long as the process.
  static Mappings& of(Accelerator& accelerator, int device);
  Mappings(Accelerator& accelerator, int device) : accelerator_(accelerator), device_(device) {}

  /// Communicators that may use it; without any, nothing is kept.
  void enter();
  void leave();

  enum class Then { keep, close };  ///< when nobody uses it any more
  /// Of the process `owner`. Null: other memory at its addresses is still being used or closed; ask again. Throws
  /// Error.
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
  std::list<Mapping::Range> open_;  // those that are being closed, too
  std::list<Kept> kept_;            // lately used ones first
  int communicators_ = 0;
};

}  // namespace tutti::cudaipc
