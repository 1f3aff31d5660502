// Arena: memory of one rank that all ranks of its host access by plain loads and stores.
//
// A sparse file, as large as the host's memory and almost empty, which every rank of the host maps whole when the job
// starts. A block is then shared by its offset: no further descriptor is passed, and an address comparison tells
// whether peers can access a buffer. Pages are reserved when a block is allocated, so that a shortage is an error
// there, and released when it is freed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "transports/core/descriptor.hpp"
#include "tutti/settings.hpp"

namespace tutti::shm {

/// Creates the file of one arena of `ranks`. On failure returns an empty descriptor and sets `why` to a clause.
Descriptor make_arena_file(const Settings& settings, std::size_t ranks, std::string& why);

/// A mapping of this rank's or a peer's arena. A forked child shares this rank's, like all memory allocated here, but
/// inherits no peer's.
class ArenaMap {
 public:
  enum class Of { own, peer };
  ArenaMap() = default;
  ArenaMap(int fd, Of whose);  ///< empty if it cannot be mapped
  ArenaMap(ArenaMap&& other) noexcept;
  ArenaMap& operator=(ArenaMap&& other) noexcept;
  ~ArenaMap();

  explicit operator bool() const noexcept { return base_ != nullptr; }
  std::size_t bytes() const noexcept { return bytes_; }
  std::byte* at(std::size_t offset) const noexcept { return base_ + offset; }
  /// The offset of [data, data + bytes) in the arena, if it lies in it.
  std::optional<std::size_t> offset_of(const std::byte* data, std::size_t bytes) const noexcept {
    const auto from = static_cast<std::size_t>(data - base_);  // wraps to a huge value below the base
    if (base_ == nullptr || from > bytes_ || bytes > bytes_ - from) return std::nullopt;
    return from;
  }

 private:
  std::byte* base_ = nullptr;
  std::size_t bytes_ = 0;
  std::uint32_t generation_ = 0;
};

/// The allocator of this rank's own arena. Threads: any.
class Arena : public std::enable_shared_from_this<Arena> {
 public:
  Arena(Descriptor file, ArenaMap map);

  const ArenaMap& map() const noexcept { return map_; }

  /// Allocates `bytes` bytes, zeroed and page-aligned, with reserved pages; returns the offset. Throws Error{resource}
  /// naming the size.
  std::size_t take(std::size_t bytes);
  void give_back(std::size_t offset) noexcept;
  /// Part of a block: gives its memory back to the system, after which it reads as zeros, and takes memory for it
  /// again. Whole pages; less is left as it is. fill() throws Error{resource}.
  void hollow(std::size_t offset, std::size_t bytes) noexcept;
  void fill(std::size_t offset, std::size_t bytes);
  /// Never frees the block that contains `data`, if there is one.
  void quarantine(const std::byte* data) noexcept;

  /// As take(), but freed by the last owner, which may outlive the transport.
  std::shared_ptr<void> allocate(std::size_t bytes);

 private:
  Descriptor file_;
  ArenaMap map_;
  std::mutex mutex_;
  std::map<std::size_t, std::size_t> free_, taken_;  // offset -> bytes
  const std::uint32_t generation_;                   // fork generation: a child frees nothing
};

}  // namespace tutti::shm
