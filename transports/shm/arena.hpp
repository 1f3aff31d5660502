// Arena: one rank's memory that the other ranks of its host reach by plain loads and stores.
//
// A sparse file, as large as the host's memory and almost empty, which every rank of the host maps whole when they
// meet. From then on a piece of it is shared by telling its offset: no descriptor has to travel again, and whether a
// buffer can be reached by the others is a comparison of addresses. Pages are taken when a piece is allocated, so
// that a shortage is an error there, and given back when it is freed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "transports/core/descriptor.hpp"
#include "transports/core/settings.hpp"

namespace tutti::shm {

/// Makes the file, one of those of `ranks` ranks; empty, and `why` as a clause, where it cannot be had.
Descriptor make_arena_file(const Settings& settings, std::size_t ranks, std::string& why);

/// A mapping of an arena, this rank's or a peer's. A forked child shares this rank's, as any memory that is allocated
/// here; it inherits no peer's.
class ArenaMap {
 public:
  enum class Of { own, peer };
  ArenaMap() = default;
  ArenaMap(int fd, Of whose);  ///< empty where it cannot be mapped
  ArenaMap(ArenaMap&& other) noexcept;
  ArenaMap& operator=(ArenaMap&& other) noexcept;
  ~ArenaMap();

  explicit operator bool() const noexcept { return base_ != nullptr; }
  std::size_t bytes() const noexcept { return bytes_; }
  std::byte* at(std::size_t offset) const noexcept { return base_ + offset; }
  /// Where [data, data + bytes) lies in the arena, if it does.
  std::optional<std::size_t> offset_of(const std::byte* data, std::size_t bytes) const noexcept {
    const auto from = static_cast<std::size_t>(data - base_);  // below the base: huge
    if (base_ == nullptr || from > bytes_ || bytes > bytes_ - from) return std::nullopt;
    return from;
  }

 private:
  std::byte* base_ = nullptr;
  std::size_t bytes_ = 0;
  std::uint32_t generation_ = 0;
};

/// This rank's own arena, and what of it is taken. Threads: any.
class Arena : public std::enable_shared_from_this<Arena> {
 public:
  Arena(Descriptor file, ArenaMap map);

  const ArenaMap& map() const noexcept { return map_; }

  /// `bytes` bytes, zeroed, page-aligned, with their pages. Throws Error{resource} naming the size.
  std::size_t take(std::size_t bytes);
  void give_back(std::size_t offset) noexcept;
  /// What `data` lies in, if anything, stays taken for ever.
  void quarantine(const std::byte* data) noexcept;

  /// The same as memory that goes with its last owner, which may outlive everything else.
  std::shared_ptr<void> allocate(std::size_t bytes);

 private:
  Descriptor file_;
  ArenaMap map_;
  std::mutex mutex_;
  std::map<std::size_t, std::size_t> free_, taken_;  // offset -> bytes
  const std::uint32_t generation_;                   // of forks: a child frees nothing
};

}  // namespace tutti::shm
