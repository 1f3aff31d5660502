// The layout of the segment: nothing overlaps, and the memory used at first and for a pair's first bytes is as stated.
#include "transports/shm/segment.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "transports/core/descriptor.hpp"
#include "transports/shm/settings.hpp"
#include "tutti/memory.hpp"
#include "tutti/status.hpp"

namespace tutti::shm {
namespace {

std::size_t blocks_bytes(int fd) {
  struct stat info {};
  EXPECT_EQ(::fstat(fd, &info), 0);
  return static_cast<std::size_t>(info.st_blocks) * 512;
}

TEST(ShmLayout, GivesEachRankItsShare) {
  const Settings settings;
  const auto share = static_cast<std::size_t>(settings.of(shm_bytes));
  for (const int ranks : {2, 3, 4, 8, 16, 64, 96, 256, 512, 1024, 4096}) {
    std::string no_arenas;
    const Layout layout = plan_layout(settings, ranks, no_arenas);
    const std::size_t others = static_cast<std::size_t>(ranks) - 1;
    EXPECT_GE(layout.capacity, page_bytes());
    EXPECT_LE(layout.capacity * others, std::max(share, page_bytes() * others)) << ranks;
    EXPECT_GE(layout.capacity * 2 * others, std::min(share, others << 21)) << ranks << " ranks could have larger rings";
    const std::size_t lines = layout.told_at(), bytes = layout.indices_at() - lines;
    EXPECT_LE(lines, (32u << 10) + static_cast<std::size_t>(ranks) * 1024)
        << "a record of a failure and a line of each";
    EXPECT_LE(bytes,
              static_cast<std::size_t>(ranks) * (static_cast<std::size_t>(ranks) + 2 * line_bytes) + page_bytes());
    EXPECT_EQ(no_arenas, "");
    EXPECT_GE(layout.arena, std::size_t{64} << 20);
  }
}

TEST(ShmLayout, OverlapsNowhere) {
  std::string no_arenas;
  for (const int ranks : {2, 5, 64, 256}) {
    const Layout layout = plan_layout({}, ranks, no_arenas);
    EXPECT_LT(layout.slots_at(), layout.lines_at());
    EXPECT_LT(layout.lines_at(), layout.leavers_at());
    EXPECT_LT(layout.leavers_at(), layout.told_at());
    EXPECT_LT(layout.told_at(), layout.indices_at());
    EXPECT_LT(layout.indices_at(), layout.rings_at());
    std::size_t next = layout.rings_at();
    for (int from = 0; from < ranks; ++from)
      for (int to = 0; to < ranks; ++to) {
        if (from == to) continue;
        ASSERT_EQ(layout.ring_at(from, to), next);
        next += layout.capacity;
      }
    EXPECT_GE(layout.arenas_at(), next);
    EXPECT_EQ(layout.bytes(), layout.arenas_at() + static_cast<std::size_t>(ranks) * layout.arena);
  }
}

TEST(ShmSegment, TakesMemoryAsPairsFirstTalk) {
  for (const int ranks : {16, 64, 256}) {
    std::string no_arenas;
    Descriptor file = make_segment({}, ranks, no_arenas);
    const int fd = file.fd();
    Segment own(std::move(file), ranks, 3);
    const std::size_t head = blocks_bytes(fd);
    EXPECT_EQ(head, own.layout().indices_at());
    std::size_t opened = 0;
    for (const int to : {0, 9, 15}) {
      static_cast<void>(own.open_writer(to));
      ++opened;
      EXPECT_EQ(blocks_bytes(fd), head + opened * (own.capacity() + page_bytes()));
      EXPECT_EQ(own.line(to).opened.load(), 1u);
    }
  }
}

TEST(ShmSegment, RefusesAHeaderWhoseSumsGoRound) {
  std::string no_arenas;
  const Descriptor file = make_segment({}, 2, no_arenas);
  std::uint64_t header[5];
  ASSERT_EQ(::pread(file.fd(), header, sizeof header, 0), static_cast<ssize_t>(sizeof header));
  const auto maps = [&](std::uint64_t capacity, std::uint64_t arena) {
    header[2] = capacity;
    header[3] = arena;
    const Layout layout{2, capacity, arena};
    Descriptor made(::memfd_create("segment", MFD_CLOEXEC));
    EXPECT_EQ(::ftruncate(made.fd(), static_cast<off_t>(layout.bytes())), 0);
    EXPECT_EQ(::pwrite(made.fd(), header, sizeof header, 0), static_cast<ssize_t>(sizeof header));
    try {
      const Segment segment(std::move(made), 2, 1);
      return true;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::protocol);
      return false;
    }
  };
  EXPECT_TRUE(maps(page_bytes(), 0));
  EXPECT_FALSE(maps(std::uint64_t{1} << 63, 0));                            // two such sizes overflow to 0
  EXPECT_FALSE(maps(page_bytes(), (std::uint64_t{1} << 63) + (2u << 20)));  // two overflow to 4 MiB
}

TEST(ShmSegment, NoRankThatIsNoneHasLeft) {
  std::string no_arenas;
  Descriptor file = make_segment({}, 2, no_arenas);
  const int fd = file.fd();
  Segment own(std::move(file), 2, 1);
  own.leave();
  EXPECT_EQ(own.leavers(), 1u);
  EXPECT_EQ(own.leaver(0), 1);
  const std::uint32_t garbage = 4711;
  ASSERT_EQ(::pwrite(fd, &garbage, sizeof garbage, static_cast<off_t>(own.layout().leavers_at())), 4);
  EXPECT_EQ(own.leaver(0), -1);
}

}  // namespace
}  // namespace tutti::shm
