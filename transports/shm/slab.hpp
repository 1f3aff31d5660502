// The memory in a rank's arena that the other ranks of a communicator read: the directory that locates slabs, and the
// slabs.
//
// Every word has one writer, the rank that owns the arena. The words about calls only grow while the slab belongs to
// one communicator. Words are stored with release after the data that they announce, and loaded with acquire. Memory
// that was a slab is reused only for slabs, because a rank that follows a chain may still read it.
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

/// Locates a rank's slabs: a hash table by the communicator's id, whose chains link the slabs. At the arena's start.
struct Directory {
  Word changes{0};                ///< slabs that were published or withdrawn so far
  std::array<Word, 511> heads{};  ///< offsets of each chain's first slab; 0: none
  Word& head(std::uint64_t group) noexcept { return heads[group * 0x9e3779b97f4a7c15ull % heads.size()]; }
  const Word& head(std::uint64_t group) const noexcept { return const_cast<Directory*>(this)->head(group); }
};
static_assert(sizeof(Directory) <= 4096);

/// The arguments of a call on the rank that owns the slab. Storing `stamp` publishes the other members.
struct CallLine {
  alignas(line_bytes) Word stamp{0};  ///< see stamp_of()
  std::uint64_t signature = 0;
  std::uint64_t bytes = 0;        ///< per block
  std::uint64_t way = 0;          ///< as in ShmCall
  std::uint64_t in = 0, out = 0;  ///< in play_meeting() and CMA: offsets in the arena, plus 1; 0: not accessible
  std::uint64_t at = 0;           ///< for CMA: the address of the root's buffer in the root's process; else 0
  int core = -1;                  ///< the root's core in a scatter of large blocks, set by play_meeting(); else -1
};

static_assert(sizeof(CallLine) == line_bytes);

/// 64 bytes that move between cores as one cache line: flag and data.
struct Packet {
  alignas(64) Word stamp{0};
  std::array<std::byte, 56> payload;
};
static_assert(sizeof(Packet) == 64);

inline constexpr std::size_t packets_per_call = 4;        ///< in the slab, for calls of usual size
inline constexpr std::size_t most_packets_per_call = 20;  ///< in memory allocated when the caller names "ll"
inline constexpr std::size_t few_bytes = packets_per_call * sizeof(Packet::payload);
inline constexpr std::size_t low_latency_bytes = most_packets_per_call * sizeof(Packet::payload);
inline constexpr std::size_t shot_bytes = std::size_t{32} << 10;  ///< largest contribution of a rank to a one-shot call
inline constexpr std::size_t one_shots = 8;                       ///< slots of the one-shot engine, by call number
inline constexpr std::size_t packet_sets = 8;                     ///< sets of packets, by call number
inline constexpr std::size_t call_lines = 8;                      ///< call lines, by call number
/// How many calls a sender may be ahead of the other ranks. It is two less than the number of slots, for two reasons: a
/// rank inside a call still uses that call's slot, and a receiver writes its call line before it waits for a sender.
inline constexpr std::uint64_t most_ahead = 6;
static_assert(most_ahead + 2 <= std::min({one_shots, packet_sets, call_lines}));
inline constexpr std::size_t room_bytes = std::size_t{256} << 10;  ///< bytes of a round's slot in a room

/// Bytes of a round's slot. Successive pieces use different places in it, because a line that another core holds in its
/// cache is slow to write. So the slots of the world communicator (two rounds of all ranks together) exceed the caches;
/// with up to eight ranks, such a slot holds at least two pieces of room_bytes. Other groups have slots of room_bytes.
constexpr std::size_t slot_bytes_of(std::uint64_t group, int size) noexcept {
  constexpr std::uint64_t world = 1;
  constexpr std::size_t all = std::size_t{2} << 20, page = 4096;
  const std::size_t each = all / static_cast<std::size_t>(size) / page * page;
  return group == world ? std::max(each, std::clamp(2 * each, room_bytes, 2 * room_bytes)) : room_bytes;
}

/// The memory of a communicator in a rank's arena from its first call on. It is small, since there may be thousands.
/// Memory for larger calls is elsewhere in the arena, at the offsets `rounds`, `shots` and `wide`; 0: there is none.
struct Slab {
  std::array<CallLine, call_lines> calls;  ///< by call number
  alignas(line_bytes) Word staged{0};      ///< number of rounds for which this rank's data are in its slot
  Word folded{0};                          ///< number of rounds for which this rank has reduced or read its part
  Word gathered{0};                        ///< number of rounds from which this rank has nothing more to read
  alignas(line_bytes) Word finished{0};    ///< last larger call in which this rank is done with peers' memory
  alignas(line_bytes) Word cancelled{0};   ///< 1: this rank's buffers must not be accessed
  Word never{0};                           ///< stays 0, so that a wait for it never ends
  std::uint64_t rounds = 0;                ///< offset of the two rounds' slots; published by the first `staged`
  std::uint64_t shots = 0;                 ///< offset of Shots; published by the stamp of the call that uses them
  std::uint64_t wide = 0;                  ///< offset of WidePackets; published in the same way
  alignas(line_bytes) Word touching{0};    ///< 1: this rank may be writing to another rank's buffer
  alignas(line_bytes) Word group{0};       ///< the communicator's id; 0: the slab is free
  Word next{0};                            ///< offset of the next slab of the chain
  Word closed{0};  ///< 1: this rank has left the communicator, and has found the slabs of all the others
  alignas(line_bytes) std::array<std::array<Packet, packets_per_call>, packet_sets> packets;
};
static_assert(sizeof(Slab) <= 4096, "a page");

/// The packets of calls that need more than packets_per_call.
using WidePackets = std::array<std::array<Packet, most_packets_per_call>, packet_sets>;
/// The slots of one-shot calls, by call number.
using Shots = std::array<std::array<std::byte, shot_bytes>, one_shots>;

/// The index of the packet set of call `number`. Successive calls use distant sets, because a core that prefetches the
/// following lines would take the lines of the next call from their writer.
constexpr std::size_t packet_set_of(std::uint64_t number) noexcept { return number * 5 % packet_sets; }

/// Stamp of a call: 48 bits of its number, 16 bits of a hash of what all ranks must agree on.
constexpr std::uint64_t stamp_of(std::uint64_t number, std::uint64_t signature, std::uint64_t bytes) noexcept {
  std::uint64_t mixed = (signature ^ bytes << 32 ^ bytes >> 32) * 0x9e3779b97f4a7c15ull;
  mixed ^= mixed >> 29;
  return number << 16 | ((mixed * 0xbf58476d1ce4e5b9ull) >> 48);
}
/// The lowest stamp of call `number`.
constexpr std::uint64_t least_stamp(std::uint64_t number) noexcept { return number << 16; }

}  // namespace tutti::shm
