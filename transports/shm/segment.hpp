// The segment that the ranks of a host share: how it is made, its layout, and this rank's mapping of it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "transports/core/descriptor.hpp"
#include "transports/shm/poison.hpp"
#include "transports/shm/ring.hpp"
#include "tutti/settings.hpp"

namespace tutti::shm {

/// State that a rank publishes about itself; written only by that rank.
struct RankLine {
  alignas(line_bytes) std::atomic<Sleep> sleep{Sleep::awake};
  std::atomic<std::uint32_t> left{0};  ///< 1: ended normally
};

/// Layout in order: header, poison record, a line per rank, the indices of each ring (including rings from a rank to
/// itself, for simple arithmetic), then the rings from a page boundary on.
struct Layout {
  std::uint32_t ranks = 0;
  std::uint64_t capacity = 0;  ///< bytes of one ring: a power of two, at least a page

  std::size_t slots_at() const noexcept;
  std::size_t lines_at() const noexcept;
  std::size_t indices_at() const noexcept;
  std::size_t rings_at() const noexcept;
  std::size_t ring_at(int from, int to) const noexcept;
  std::size_t bytes() const noexcept;
};

/// The largest layout within the setting shm_bytes; throws Error{resource} if not even rings of one page fit.
Layout plan_layout(const Settings& settings, int ranks);

/// Creates the segment with all its pages reserved: a sealed memfd, or if that is refused an unlinked file in
/// the setting shm_dir. Throws Error{resource} naming the size and the place.
Descriptor make_segment(const Settings& settings, int ranks);

/// Whether memfd_create works; else sets `error` to its errno. TUTTI_TEST_NO_MEMFD disables it for tests.
bool memfd_works(int& error) noexcept;

/// Opens an unnamed file in `folder`; empty with errno if that is not possible.
Descriptor make_nameless_file(const std::string& folder);

/// A rank's mapping of the common part and of its own rings only, each ring twice in a row. Not inherited by forked
/// children. `fd` may be closed after construction.
class Segment {
 public:
  Segment() = default;
  /// Throws Error{resource} if it cannot be mapped, Error{protocol} if it is not a segment for `ranks` ranks.
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
