// How shm divides a call into rounds, for every number of ranks.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>

#include "transports/shm/engines.hpp"

namespace tutti::shm {
namespace {

ShmCall made(Kind kind, int size, std::size_t width, std::size_t count) {
  ShmCall call;
  call.kind = kind;
  call.size = size;
  call.width = width;
  call.count = count;
  return call;
}

TEST(ShmRounds, FitTheirSlots) {
  for (const Kind kind : {Kind::allreduce, Kind::reduce, Kind::broadcast, Kind::allgather, Kind::reduce_scatter,
                          Kind::gather, Kind::scatter, Kind::alltoall})
    for (int size = 2; size <= most_ranks; ++size)
      for (const std::size_t width : {1u, 2u, 4u, 8u})
        for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{1000}, std::size_t{1} << 24})
          for (const bool vast : {false, true}) {
            ShmCall call = made(kind, size, width, count);
            call.vast = vast;
            call.slot_room = vast ? slot_bytes_of(1, size) : room_bytes;
            const std::uint64_t rounds = rounds_of(call);
            const std::string what = std::string(name(kind)) + " of " + std::to_string(count) + " times " +
                                     std::to_string(width) + " bytes on " + std::to_string(size) + " ranks" +
                                     (vast ? ", vast" : "");
            if (count == 0) {
              EXPECT_EQ(rounds, 0u) << what;
              continue;
            }
            EXPECT_GE(rounds * call.slot_room, call.given_bytes()) << what;
            // Rounds are not many more than needed: a slot is at least half full, or has a line of each block.
            const std::size_t slot = std::min(room_bytes, 8 * room_bytes / static_cast<std::size_t>(size));
            const std::size_t least = std::max(slot / 2, call.blocks_given() * 64 / 2);
            EXPECT_LE((rounds - 1) * least, call.given_bytes()) << what;
          }
}

// Calls larger than the caches have larger pieces, if many ranks wait for one another and slots are large enough.
TEST(ShmRounds, AreFewerOfVastCalls) {
  for (const Kind kind : {Kind::allreduce, Kind::reduce, Kind::broadcast, Kind::allgather, Kind::reduce_scatter})
    for (int size = 2; size <= most_ranks; ++size)
      for (const std::uint64_t group : {1, 2}) {
        ShmCall call = made(kind, size, 4, std::size_t{1} << 24);
        call.slot_room = slot_bytes_of(group, size);
        const std::uint64_t usual = rounds_of(call);
        call.vast = true;
        const bool larger =
            (kind == Kind::allreduce || kind == Kind::reduce_scatter) && size > 2 && size < 16 && group == 1;
        if (larger)
          EXPECT_LT(rounds_of(call), usual) << name(kind) << " on " << size;
        else
          EXPECT_EQ(rounds_of(call), usual) << name(kind) << " on " << size;
      }
}

// The world communicator has larger slots, and so larger pieces. Others, and more ranks, have the usual pieces.
TEST(ShmRounds, ManyRanksHaveLargerPiecesOfWhatIsNotFolded) {
  for (const Kind kind : {Kind::scatter, Kind::alltoall})
    for (int size = 2; size <= most_ranks; ++size) {
      ShmCall call = made(kind, size, 4, std::size_t{1} << 24);
      const auto rounds = [&](std::uint64_t group) {
        call.slot_room = slot_bytes_of(group, size);
        return rounds_of(call);
      };
      if (size > 4 && size < 16)
        EXPECT_LT(rounds(1), rounds(2)) << name(kind) << " on " << size;
      else
        EXPECT_EQ(rounds(1), rounds(2)) << name(kind) << " on " << size;
    }
}

TEST(ShmRounds, SlotsHoldEveryPiece) {
  constexpr std::size_t mebibyte = std::size_t{1} << 20;
  for (int size = 2; size <= most_ranks; ++size) {
    EXPECT_GE(slot_bytes_of(1, size), room_bytes);
    EXPECT_EQ(slot_bytes_of(1, size) % 4096, 0u) << "the second begins where the first ends";
    EXPECT_EQ(slot_bytes_of(2, size), room_bytes) << "of communicators there may be many";
    EXPECT_LE(static_cast<std::size_t>(size) * slot_bytes_of(1, size),
              std::max(4 * mebibyte, static_cast<std::size_t>(size) * room_bytes));
  }
}

TEST(ShmRounds, SharesCoverEverything) {
  for (const std::size_t width : {1u, 4u, 8u})
    for (const std::size_t count : {0u, 1u, 15u, 1000u, 70'001u})
      for (int size = 1; size <= 9; ++size) {
        std::size_t next = 0;
        for (int rank = 0; rank < size; ++rank) {
          const Part part = share(count, width, rank, size);
          EXPECT_EQ(part.at, next);
          EXPECT_TRUE(part.at == count || part.at * width % 64 == 0);
          next += part.count;
        }
        EXPECT_EQ(next, count);
      }
}

// The buffers of the call, which may be others than those of the call before, determine whether results are written
// with non-temporal stores. In place, input and output are counted once.
TEST(ShmWrites, GoPastTheCachesWhereTheseCannotHoldAll) {
  const std::size_t cache = std::size_t{48} << 20, ranks = 4;
  std::byte* const in = reinterpret_cast<std::byte*>(std::uintptr_t{1} << 40);  // never dereferenced
  std::byte* const out = reinterpret_cast<std::byte*>(std::uintptr_t{2} << 40);
  const auto write = [&](Kind kind, std::size_t block, const std::byte* given, std::byte* result) {
    ShmCall call = made(kind, static_cast<int>(ranks), 4, block / 4);
    call.cache_bytes = cache;
    call.measure();
    call.set_buffers(out, out);
    call.set_buffers(given, result);
    return call.write;
  };
  for (const Kind kind : {Kind::allreduce, Kind::alltoall}) {
    const std::size_t most = kind == Kind::allreduce ? cache / ranks : cache / ranks / ranks;  // a block, in place
    EXPECT_EQ(write(kind, most / 4, in, out), Write::cached) << name(kind);
    EXPECT_EQ(write(kind, most / 2, in, out), Write::streaming) << name(kind);
    EXPECT_EQ(write(kind, most / 2, in, in), Write::cached) << name(kind);
    EXPECT_EQ(write(kind, most - 64, in, in), Write::cached) << name(kind);
    EXPECT_EQ(write(kind, most + 64, in, in), Write::streaming) << name(kind);
  }
  // In place, an allgather's input is only the rank's own block.
  const std::size_t block = cache / ranks / ranks;
  EXPECT_EQ(write(Kind::allgather, block / 2, in, out), Write::cached);
  EXPECT_EQ(write(Kind::allgather, block, in, in), Write::streaming);
  EXPECT_EQ(write(Kind::broadcast, cache / 2 / ranks, in, in), Write::cached);
  EXPECT_EQ(write(Kind::broadcast, cache / ranks, in, in), Write::streaming);
}

}  // namespace
}  // namespace tutti::shm
