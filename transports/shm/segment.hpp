// The file that the ranks of a host share: how it is made, its layout, and this rank's mapping of its lines and rings.
//
// It is sparse. Its head is there from the start; rings get their memory when a pair of ranks first talks, and arenas
// when something is allocated (see arena.hpp). Both reserve it first, so that a shortage is an error there.
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
  std::atomic<std::uint32_t> left{0};    ///< 1: ended normally
  std::atomic<std::uint32_t> opened{0};  ///< rings that others have opened to this rank; they count
};

/// What a rank has told another one, in a byte of which it is the only writer.
enum Told : std::uint8_t {
  opened_ring = 1,  ///< its ring to that rank is open
  waits = 2,        ///< it waits for a ring of that rank: if that leaves, wake it
};

/// Layout in order: header, poison record, a line per rank, the ranks that have left, for each rank a byte per other
/// rank (Told), from a page boundary on the indices of each ring, by the rank that reads it, the rings, by the rank
/// that writes them, and the arenas. The table of indices has rings from a rank to itself, for simple arithmetic.
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

/// Rings as large as the setting shm_bytes allows a rank, but at least of a page; arenas as large as the host's memory.
/// If there are none, `no_arenas` is set to a clause.
Layout plan_layout(const Settings& settings, int ranks, std::string& no_arenas);

/// Creates the file, with memory for its head: a sealed memfd, or if that is refused an unlinked file in the setting
/// shm_dir. Throws Error{resource} naming the size and the place.
Descriptor make_segment(const Settings& settings, int ranks, std::string& no_arenas);

/// Whether memfd_create works; else sets `error` to its errno. TUTTI_TEST_NO_MEMFD disables it for tests.
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

  /// Reserves and maps the ring to `to`, and tells that rank of it; once. Throws Error{resource}.
  RingWriter open_writer(int to);
  /// Maps the ring from `from`, once it is open; once. Throws Error{resource}.
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
  /// This rank leaves; and the number of those that have left, which rises after their lines say so.
  void leave() noexcept;
  std::uint32_t leavers() const noexcept;
  /// The n-th that has left, its local index; -1: not written yet, or no index of a rank.
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
