// Objects of completed calls are reused, by any threads.
#include "collectives/runtime/pool.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

namespace tutti {
namespace {

struct Thing {
  static inline std::atomic<int> made = 0, there = 0;
  Thing() { ++made, ++there; }
  ~Thing() { --there; }
  Thing(const Thing&) = delete;
  Thing& operator=(const Thing&) = delete;
};

TEST(Pool, GivesWhatWasGivenLast) {
  Pool<int> pool;
  int* const one = pool.take();
  int* const two = pool.take();
  EXPECT_NE(one, two);
  pool.give(one);
  pool.give(two);
  EXPECT_EQ(pool.take(), two);
  EXPECT_EQ(pool.take(), one);
  pool.give(one);
  EXPECT_EQ(pool.take(), one);
  pool.give(two);
  pool.give(one);
}

// An object may be returned a little after its call has ended, so the pool keeps one spare.
TEST(Pool, HasOneMoreThanAreInUse) {
  for (const int used : {1, 2, 4, 8, 16, 100}) {
    Thing::made = 0;
    {
      Pool<Thing> pool;
      std::vector<Thing*> all;
      for (int i = 0; i < used; ++i) all.push_back(pool.take());
      const int made = Thing::made;
      all.push_back(pool.take());
      EXPECT_EQ(Thing::made, made) << used;
      EXPECT_LE(made, std::max(16, 2 * used)) << used;
      for (Thing* const one : all) pool.give(one);
    }
    EXPECT_EQ(Thing::there, 0);
  }
}

TEST(Pool, KeepsAFewHundred) {
  Thing::made = 0;
  {
    Pool<Thing> pool;
    std::vector<Thing*> all;
    for (int time = 0; time < 2; ++time) {
      for (int i = 0; i < 300; ++i) all.push_back(pool.take());
      for (Thing* const one : all) pool.give(one);
      all.clear();
      EXPECT_EQ(Thing::there, 256);
    }
  }
  EXPECT_EQ(Thing::there, 0);
}

// A thread that is descheduled inside the pool does not make other threads allocate: there are never many more objects
// than the threads use at a time.
TEST(Pool, IsSharedByThreads) {
  constexpr int threads = 8, each = 3, times = 20'000;
  Thing::made = 0;
  {
    Pool<Thing> pool;
    std::vector<std::thread> all;
    for (int i = 0; i < threads; ++i)
      all.emplace_back([&] {
        for (int time = 0; time < times; ++time) {
          Thing* mine[each];
          for (Thing*& one : mine) one = pool.take();
          for (Thing* const one : mine) pool.give(one);
          if (time % 100 == 0) std::this_thread::yield();
        }
      });
    for (std::thread& one : all) one.join();
    EXPECT_GE(Thing::made, each);
    EXPECT_LE(Thing::made, 4 * threads * each);
    EXPECT_EQ(Thing::made, Thing::there) << "none was thrown away";
  }
  EXPECT_EQ(Thing::there, 0);
}

}  // namespace
}  // namespace tutti
