// Arena: memory of one rank that all ranks of its host access by plain loads and stores.
//
// All arenas are in one sparse file, the segment. An arena is at most as large as the host's memory, and most of it has
// no pages. Every rank of the host maps all arenas when the job starts. Ranks then refer to a block by its offset and
// pass no further descriptors; a comparison of addresses shows whether peers can access a buffer. An allocation
// reserves the pages of its block, so a shortage of memory is an error there. Freeing the block releases the pages.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "transports/core/descriptor.hpp"
#include "transports/shm/segment.hpp"

namespace tutti::shm {

/// One arena in this process. The mapping is borrowed.
struct ArenaMap {
  std::byte* base = nullptr;
  std::size_t bytes = 0;

  std::byte* at(std::size_t offset) const noexcept { return base + offset; }
  /// The offset of [data, data + n) in the arena; nullopt if the range does not lie in the arena.
  std::optional<std::size_t> offset_of(const std::byte* data, std::size_t n) const noexcept {
    const auto from = static_cast<std::size_t>(data - base);  // wraps to a huge value below the base
    if (base == nullptr || from > bytes || n > bytes - from) return std::nullopt;
    return from;
  }
};

/// A rank's mapping of all arenas of its host. A forked child inherits the mapping of this rank's own arena, and of no
/// peer's arena.
class Arenas {
 public:
  /// `self`: this rank's local index. The object is false if the segment has no arenas or if they cannot be mapped.
  Arenas(int fd, const Layout& layout, int self);
  ~Arenas();
  Arenas(const Arenas&) = delete;
  Arenas& operator=(const Arenas&) = delete;

  explicit operator bool() const noexcept { return base_ != nullptr; }
  ArenaMap of(int local) const noexcept { return {base_ + static_cast<std::size_t>(local) * each_, each_}; }

 private:
  std::byte* base_ = nullptr;
  std::size_t each_ = 0, bytes_ = 0;
  std::uint32_t generation_ = 0;
};

/// The allocator of this rank's own arena. Threads: any.
class Arena : public std::enable_shared_from_this<Arena> {
 public:
  /// `begin`: the offset of this arena in the file, in bytes. `self`: this rank's local index.
  Arena(Descriptor file, std::size_t begin, std::shared_ptr<const Arenas> all, int self);

  const ArenaMap& map() const noexcept { return map_; }
  const std::shared_ptr<const Arenas>& all() const noexcept { return all_; }

  /// Allocates `bytes` bytes, zeroed and page-aligned, with reserved pages; returns the offset. Throws Error{resource}
  /// naming the size.
  std::size_t take(std::size_t bytes);
  void give_back(std::size_t offset) noexcept;
  /// hollow() returns the pages of a part of a block to the system; the part then reads as zeros. fill() reserves the
  /// pages again, and throws Error{resource}. Both do nothing unless `bytes` is a multiple of the page size.
  void hollow(std::size_t offset, std::size_t bytes) noexcept;
  void fill(std::size_t offset, std::size_t bytes);
  /// From now on, the block that contains `data` is never freed or reused. No effect if no block contains `data`.
  void quarantine(const std::byte* data) noexcept;

  /// As take(), but returns a pointer. Its last owner frees the block, and may outlive the transport.
  std::shared_ptr<void> allocate(std::size_t bytes);

 private:
  off_t in_file(std::size_t offset) const noexcept { return static_cast<off_t>(begin_ + offset); }

  Descriptor file_;
  const std::size_t begin_;
  const std::shared_ptr<const Arenas> all_;
  const ArenaMap map_;
  std::mutex mutex_;
  std::map<std::size_t, std::size_t> free_, taken_;  // offset -> bytes
  const std::uint32_t generation_;                   // fork generation: a child frees nothing
};

}  // namespace tutti::shm
