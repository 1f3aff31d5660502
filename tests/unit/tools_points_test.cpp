// The measurements that benchmarks/hosts/run requests from its program.
#include <gtest/gtest.h>

#include "benchmarks/hosts/points.hpp"
#include "tutti/status.hpp"

namespace tutti::bench {
namespace {

TEST(Points, AreReadFromWords) {
  const Points points = parse_points(std::vector<std::string>{
      "board=/proc/7/fd/3", "kind=alltoall", "sizes=8,1024,65536", "others=bruck,linear", "seconds=0.25", "seed=9"});
  EXPECT_EQ(points.board, "/proc/7/fd/3");
  EXPECT_EQ(points.kind, Kind::alltoall);
  EXPECT_EQ(points.sizes, (std::vector<std::int64_t>{8, 1024, 65536}));
  EXPECT_EQ(points.others, "bruck,linear");
  EXPECT_EQ(points.seconds, 0.25);
  EXPECT_EQ(points.seed, 9u);
}

TEST(Points, WrongWordsAreRefused) {
  const std::vector<std::string> good = {"board=x", "sizes=8"};
  EXPECT_NO_THROW((void)parse_points(good));
  for (const char* word : {"sizes=", "sizes=8,x", "sizes=9,8", "sizes=0", "kind=barrier", "kind=sendrecv",
                           "kind=allredcue", "seconds=soon", "seed=-1", "colour=red", "word"}) {
    std::vector<std::string> words = good;
    words.emplace_back(word);
    EXPECT_THROW((void)parse_points(words), Error) << word;
  }
  EXPECT_THROW((void)parse_points(std::vector<std::string>{"sizes=8"}), Error);
  EXPECT_THROW((void)parse_points(std::vector<std::string>{"board=x"}), Error);
}

TEST(Points, WhatWasFarBehindAndWouldTakeLongIsLeftOut) {
  EXPECT_FALSE(hopeless({1024, 0.039, 0.01}, 1 << 20, 0.5));  // is not far enough behind
  EXPECT_FALSE(hopeless({1024, 0.001, 0.0001}, 4096, 0.5));   // takes little time
  EXPECT_TRUE(hopeless({1024, 0.001, 0.0001}, 1 << 20, 0.5));
  EXPECT_FALSE(hopeless({}, 1 << 20, 0.5));
}

}  // namespace
}  // namespace tutti::bench
