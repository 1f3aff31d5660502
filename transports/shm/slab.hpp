// What one rank shows the others of one communicator, in its arena: the directory by which they find it, and the slab.
//
// Every word has one writer, the rank whose arena it is, and only grows while the slab belongs to one communicator.
// Whoever posts a word stores it with release after what it announces; whoever awaits it loads it with acquire.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "transports/shm/ring.hpp"

namespace tutti::shm {

using Word = std::atomic<std::uint64_t>;
static_assert(Word::is_always_lock_free);

/// Says where the slab of a communicator is.
struct DirectoryEntry {
  Word group{0};           ///< 0: free
  std::uint64_t slab = 0;  ///< offset in the arena; written before `group`
  Word closed{0};          ///< 1: this rank has left the communicator and has found all the others' slabs
};

/// A page of the directory; the first one lies at the arena's beginning.
struct DirectoryPage {
  Word published{0};  ///< entries made so far; of the first page only
  Word next{0};       ///< offset of the next page; 0: none
  std::array<DirectoryEntry, 120> entries;
};
static_assert(sizeof(DirectoryPage) <= 4096);

/// A call as its rank made it: told before anything else about it.
struct CallLine {
  alignas(line_bytes) Word stamp{0};  ///< see stamp_of()
  std::uint64_t signature = 0;
  std::uint64_t bytes = 0;        ///< per block
  std::uint64_t way = 0;          ///< as in DirectCall
  std::uint64_t in = 0, out = 0;  ///< where all meet, and in cma: offsets in the arena, plus 1; 0: not to be reached
  std::uint64_t at = 0;           ///< of a root whose memory the kernel reads in cma: where it sees its buffer; else 0
  int core = -1;                  ///< of the root of a scatter of large blocks, told where all meet; else -1
};

static_assert(sizeof(CallLine) == line_bytes);

/// 64 bytes that travel between two cores at once: news and what it is about.
struct Packet {
  alignas(64) Word stamp{0};
  std::array<std::byte, 56> payload;
};
static_assert(sizeof(Packet) == 64);

inline constexpr std::size_t packets_per_call = 20;
inline constexpr std::size_t packed_bytes = packets_per_call * sizeof(Packet::payload);
inline constexpr std::size_t shot_bytes = std::size_t{32} << 10;  ///< of a contribution that is staged in one go
inline constexpr std::size_t one_shots = 8;                       ///< slots for that
inline constexpr std::size_t packet_sets = 8;                     ///< by call number
inline constexpr std::size_t call_lines = 8;                      ///< by call number
/// Calls that who gives may be ahead of the others. Two less than there are places: who is in a call has not ended it,
/// and who does not give writes its line before it hears of one who does.
inline constexpr std::uint64_t most_ahead = 6;
static_assert(most_ahead + 2 <= std::min({one_shots, packet_sets, call_lines}));
inline constexpr std::size_t room_bytes = std::size_t{256} << 10;  ///< of a round's piece, at most

/// Of a round's slot, in which pieces take turns. Lines that another core has read are slow to take back for the next
/// piece, but not when they have left its caches: so the slots of the world's ranks together, of one round and as much
/// again of the next, are larger than those, while further communicators have no more than they need. Up to eight have
/// room for two pieces.
constexpr std::size_t slot_bytes_of(std::uint64_t group, int size) noexcept {
  constexpr std::uint64_t world = 1;
  constexpr std::size_t all = std::size_t{2} << 20, page = 4096;
  const std::size_t each = all / static_cast<std::size_t>(size) / page * page;
  return group == world ? std::max(each, std::clamp(2 * each, room_bytes, 2 * room_bytes)) : room_bytes;
}

struct Slab {
  std::array<CallLine, call_lines> calls;  ///< by call number
  alignas(line_bytes) Word staged{0};      ///< rounds of which this rank's contribution lies in its slot
  Word folded{0};                          ///< rounds of which this rank's slice of the result lies in a slot
  Word gathered{0};                        ///< rounds that this rank has nothing more to read of
  alignas(line_bytes) Word finished{0};    ///< calls of which this rank touches no other rank's memory any more
  std::uint64_t rounds = 0;                ///< offset of the two rounds' slots; told by the first `staged`
  alignas(line_bytes) Word cancelled{0};   ///< 1: keep out of this rank's buffers
  Word never{0};                           ///< stays 0
  alignas(line_bytes) Word touching{0};    ///< 1: this rank may be writing to another's buffer
  alignas(line_bytes) std::array<std::array<Packet, packets_per_call>, packet_sets> packets;
  alignas(line_bytes) std::array<std::array<std::byte, shot_bytes>, one_shots> shots;
};

/// 48 bits of the call's number, 16 of what all ranks must agree on.
constexpr std::uint64_t stamp_of(std::uint64_t number, std::uint64_t signature, std::uint64_t bytes) noexcept {
  std::uint64_t mixed = (signature ^ bytes << 32 ^ bytes >> 32) * 0x9e3779b97f4a7c15ull;
  mixed ^= mixed >> 29;
  return number << 16 | ((mixed * 0xbf58476d1ce4e5b9ull) >> 48);
}
/// What a stamp of call `number` is at least.
constexpr std::uint64_t least_stamp(std::uint64_t number) noexcept { return number << 16; }

}  // namespace tutti::shm
