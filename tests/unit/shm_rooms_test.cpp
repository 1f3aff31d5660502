// Rooms (shared buffers for larger calls): kept while they are few, taken from idle owners, freed when none needs them.
#include "transports/shm/rooms.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <deque>
#include <memory>
#include <set>

#include "tutti/memory.hpp"

namespace tutti::shm {
namespace {

constexpr std::size_t bytes = std::size_t{64} << 10;

struct Group final : Tenant {
  bool idle = false;
  std::size_t room = 0;
  bool gives_up(std::size_t which) noexcept override {
    EXPECT_EQ(which, room);
    if (idle) room = 0;
    return idle;
  }
};

class ShmRooms : public ::testing::Test {
 protected:
  Group& group() { return groups_.emplace_back(); }
  Group& with_room() {
    Group& one = group();
    one.room = rooms.take(one);
    return one;
  }
  std::size_t held() const {
    struct stat info {};
    EXPECT_EQ(::fstat(segment_.fd(), &info), 0);
    return (static_cast<std::size_t>(info.st_blocks) * 512 - empty_) / bytes;
  }

 private:
  static Segment make_one() {
    std::string no_arenas;
    return {make_segment({}, 2, no_arenas), 2, 0};
  }
  std::size_t blocks() const {
    struct stat info {};
    return ::fstat(segment_.fd(), &info) == 0 ? static_cast<std::size_t>(info.st_blocks) * 512 : 0;
  }

  Segment segment_ = make_one();
  std::shared_ptr<Arena> arena_ =
      std::make_shared<Arena>(Descriptor(::dup(segment_.fd())), segment_.layout().arena_at(0),
                              std::make_shared<const Arenas>(segment_.fd(), segment_.layout(), 0), 0);
  const std::size_t first_ = arena_->take(page_bytes());  // a directory's page; no room begins there
  const std::size_t empty_ = blocks();
  std::deque<Group> groups_;

 protected:
  Rooms rooms{*arena_, bytes};
};

TEST_F(ShmRooms, AreKeptWhileTheyAreFew) {
  std::set<std::size_t> places;
  for (std::size_t i = 0; i < Rooms::most_kept; ++i) {
    Group& one = with_room();
    one.idle = true;
    places.insert(one.room);
  }
  EXPECT_EQ(places.size(), Rooms::most_kept) << "none was taken from another";
  rooms.tidy();
  EXPECT_EQ(held(), Rooms::most_kept);
}

TEST_F(ShmRooms, AreTakenFromTheIdleAlone) {
  for (std::size_t i = 0; i + 1 < Rooms::most_kept; ++i) with_room();
  Group& idle = with_room();
  const std::size_t room = idle.room;
  with_room();
  EXPECT_EQ(held(), Rooms::most_kept + 1) << "all were busy";
  idle.idle = true;
  EXPECT_EQ(with_room().room, room);
  EXPECT_EQ(idle.room, 0u);
  EXPECT_EQ(held(), Rooms::most_kept + 1);
}

TEST_F(ShmRooms, AreGivenBackOnceTheyAreIdle) {
  std::deque<Group*> many;
  for (std::size_t i = 0; i < 40; ++i) many.push_back(&with_room());
  rooms.tidy();
  EXPECT_EQ(held(), 40u);
  for (Group* const one : many) one->idle = true;
  rooms.tidy();
  EXPECT_EQ(held(), Rooms::most_kept);
}

TEST_F(ShmRooms, OutliveTheirTenant) {
  Group& gone = with_room();
  rooms.leave(gone);
  rooms.put_back(gone.room);
  EXPECT_EQ(with_room().room, gone.room);
  EXPECT_EQ(held(), 1u);
}

}  // namespace
}  // namespace tutti::shm
