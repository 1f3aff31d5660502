// The segment: the file that the ranks of a host share. Creates it, defines its layout, and maps its head and rings.
//
// The file is sparse. Its head has memory from the start. A ring gets memory when a rank first writes to another, and
// an arena when a block is allocated (arena.hpp). Both reserve the memory first, so a shortage is an error there.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "transports/core/descriptor.hpp"
#include "transports/shm/poison.hpp"
#include "transports/shm/ring.hpp"
#include "tutti/settings.hpp"

namespace tutti::shm {

/// State that a rank publishes about itself.
struct RankLine {
  alignas(line_bytes) std::atomic<Sleep> sleep{Sleep::awake};
  std::atomic<std::uint32_t> left{0};    ///< 1: the rank has ended normally
  std::atomic<std::uint32_t> opened{0};  ///< number of rings that others have opened to this rank, counted by them
};

/// The bits of the byte from one rank to another, which only the first rank writes.
enum Told : std::uint8_t {
  opened_ring = 1,  ///< the first rank has opened its ring to the second
  waits = 2,        ///< the first rank waits for a ring from the second, which must wake it when leaving
};

/// The order in the file: the header; the poison record; a RankLine per rank; the list of ranks that have left; for
/// each rank a byte per other rank (Told); from a page boundary on, the indices of the rings, by reading rank; the
/// rings, by writing rank; the arenas. The indices include unused ones from a rank to itself, which makes the
/// arithmetic simple.
struct Layout {
  std::uint32_t ranks = 0;
  std::uint64_t capacity = 0;  ///< bytes of one ring: a power of two, at least a page
  std::uint64_t arena = 0;     ///< bytes of one arena; 0: there are none

  std::size_t slots_at() const noexcept;
  std::size_t lines_at() const noexcept;
  std::size_t leavers_at() const noexcept;
  std::size_t told_at() const noexcept;
  std::size_t told_stride() const noexcept;
  std::size_t indices_at() const noexcept;
  std::size_t rings_at() const noexcept;
  std::size_t ring_at(int from, int to) const noexcept;
  std::size_t arenas_at() const noexcept;
  std::size_t arena_at(int local) const noexcept;
  std::size_t bytes() const noexcept;
};

/// Plans rings as large as the setting shm_bytes allows, between a page and 1 MiB, and arenas of at most the host's
/// memory. If there can be no arenas, sets `no_arenas` to the reason, as a clause.
Layout plan_layout(const Settings& settings, int ranks, std::string& no_arenas);

/// Creates the file, with memory for its head: a sealed memfd, or if that is refused, an unlinked file in the folder of
/// the setting shm_dir. Throws Error{resource} naming the size and the place. `no_arenas`: as for plan_layout().
Descriptor make_segment(const Settings& settings, int ranks, std::string& no_arenas);

/// True if memfd_create works; else sets `error` to its errno. TUTTI_TEST_NO_MEMFD disables it for tests.
bool memfd_works(int& error) noexcept;

/// A rank's mapping of the head and of its rings, each ring twice in a row. Not inherited by forked children.
class Segment {
 public:
  Segment() = default;
  /// Throws Error{resource} if it cannot be mapped, Error{protocol} if it is not a segment for `ranks` ranks.
  Segment(Descriptor file, int ranks, int self);
  Segment(Segment&& other) noexcept;
  Segment& operator=(Segment&& other) noexcept;
  ~Segment();

  const Layout& layout() const noexcept { return layout_; }
  int fd() const noexcept { return file_.fd(); }
  std::size_t capacity() const noexcept { return layout_.capacity; }

  /// Reserves and maps the ring to `to`, and informs that rank. Call once per rank. Throws Error{resource}.
  RingWriter open_writer(int to);
  /// Maps the ring from `from`, which must be open. Call once per rank. Throws Error{resource}.
  RingReader open_reader(int from);
  bool is_open(int from) const noexcept {
    return (told(from, self_).load(std::memory_order_acquire) & opened_ring) != 0;
  }
  bool is_awaited_by(int from) const noexcept {
    return (told(from, self_).load(std::memory_order_seq_cst) & waits) != 0;
  }
  void wait_for(int to) noexcept { tell(to, waits); }

  RankLine& line(int rank) noexcept;
  PoisonTable poison() noexcept;
  /// leave() records that this rank leaves. leavers(): how many ranks have left; grows after RankLine::left is set.
  void leave() noexcept;
  std::uint32_t leavers() const noexcept;
  /// The local index of the n-th rank that has left, n from 0; -1: not written yet, or not the index of a rank.
  int leaver(std::uint32_t n) const noexcept;

 private:
  RingIndices& indices(int from, int to) noexcept;
  std::atomic<std::uint8_t>& told(int from, int to) const noexcept;
  void tell(int to, Told what) noexcept;
  std::atomic<std::uint32_t>* leaver_list() const noexcept;
  void reserve_ring(int to);
  std::byte* map_ring(int from, int to);
  void release() noexcept;

  Descriptor file_;
  Layout layout_;
  int self_ = 0;
  std::uint32_t generation_ = 0;
  bool indices_reserved_ = false;
  std::byte* head_ = nullptr;
  std::vector<std::byte*> rings_;
};

}  // namespace tutti::shm
