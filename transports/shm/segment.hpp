// The one segment that the ranks of a host share: who made it, what lies where, and this rank's view of it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "transports/core/descriptor.hpp"
#include "transports/core/settings.hpp"
#include "transports/shm/poison.hpp"
#include "transports/shm/ring.hpp"

namespace tutti::shm {

/// What a rank says about itself; written by that rank alone.
struct RankLine {
  alignas(line_bytes) std::atomic<Sleep> sleep{Sleep::awake};
  std::atomic<std::uint32_t> left{0};  ///< 1: ended normally
};

/// Where things lie, in this order: header, poison, a line for each rank, the indices of each ring (also of
/// those from a rank to itself, to keep the arithmetic plain), then from a page boundary on the rings.
struct Layout {
  std::uint32_t ranks = 0;
  std::uint64_t capacity = 0;  ///< of one ring: a power of two, at least a page

  std::size_t slots_at() const noexcept;
  std::size_t lines_at() const noexcept;
  std::size_t indices_at() const noexcept;
  std::size_t rings_at() const noexcept;
  std::size_t ring_at(int from, int to) const noexcept;
  std::size_t bytes() const noexcept;
};

/// The largest layout within settings.shm_bytes; throws Error{resource} when not even rings of a page fit.
Layout plan_layout(const Settings& settings, int ranks);

/// Makes the segment: a sealed memfd, or where that is refused an unlinked file in settings.shm_dir, with all
/// its pages reserved. Throws Error{resource} naming the size and the place.
Descriptor make_segment(const Settings& settings, int ranks);

/// Whether the kernel gives memfds (TUTTI_TEST_NO_MEMFD says no, for tests); else errno in `error`.
bool memfd_works(int& error) noexcept;

/// An open file of no name in `folder`; empty and errno where that is not possible.
Descriptor make_nameless_file(const std::string& folder);

/// A rank's mapping: the common part, and its own rings only, each twice in a row. Not inherited by forked
/// children. Borrows nothing: the descriptor may be closed.
class Segment {
 public:
  Segment() = default;
  /// Throws Error{resource} when it cannot be mapped, Error{protocol} when it is no segment for `ranks`.
  Segment(int fd, int ranks, int self);
  Segment(Segment&& other) noexcept;
  Segment& operator=(Segment&& other) noexcept;
  ~Segment();

  std::size_t capacity() const noexcept { return layout_.capacity; }
  RingWriter writer(int to) noexcept { return {indices(self_, to), mirrored(to, true), capacity()}; }
  RingReader reader(int from) noexcept { return {indices(from, self_), mirrored(from, false), capacity()}; }
  RankLine& line(int rank) noexcept;
  PoisonTable poison() noexcept;

 private:
  RingIndices& indices(int from, int to) noexcept;
  std::byte* mirrored(int peer, bool outgoing) noexcept;
  void map_rings(int fd);
  void release() noexcept;

  Layout layout_;
  int self_ = 0;
  std::uint32_t generation_ = 0;
  std::byte* common_ = nullptr;
  std::byte* rings_ = nullptr;
};

}  // namespace tutti::shm
