// Geometry: chunks and blocks tile their buffer, neighbours and trees agree with each other.
#include "collectives/plan/geometry.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace tutti {
namespace {

TEST(Chunks, TileTheBufferAsEvenlyAsCanBe) {
  for (int parts = 1; parts <= 33; ++parts)
    for (const std::size_t count : {0u, 1u, 5u, 31u, 32u, 33u, 34u, 1000u}) {
      const Chunks chunk(count, parts);
      std::size_t at = 0;
      for (int i = 0; i < parts; ++i) {
        EXPECT_EQ(chunk[i].offset, at);
        EXPECT_LE(chunk[i].count, chunk[0].count);
        EXPECT_LE(chunk[0].count, chunk[i].count + 1);
        at += chunk[i].count;
      }
      EXPECT_EQ(at, count);
      EXPECT_EQ(chunk.run(0, parts), (Range{0, count}));
    }
}

TEST(Chunks, IndexWrapsBothWays) {
  const Chunks chunk(10, 4);  // 3 3 2 2
  EXPECT_EQ(chunk[-1], chunk[3]);
  EXPECT_EQ(chunk[5], chunk[1]);
  EXPECT_EQ(chunk[-9], chunk[3]);
  EXPECT_EQ(chunk.run(1, 2), (Range{3, 5}));
  EXPECT_EQ(chunk.run(2, 0), (Range{6, 0}));
}

TEST(Chunks, HugeCountsDoNotOverflow) {
  const std::size_t count = std::size_t{1} << 62;
  const Chunks chunk(count + 1, 64);
  EXPECT_EQ(chunk[63].offset + chunk[63].count, count + 1);
}

TEST(Blocks, OfEqualCounts) {
  const Blocks block(3, 4);
  EXPECT_EQ(block[2], (Range{6, 3}));
  EXPECT_EQ(block[-1], (Range{9, 3}));
  EXPECT_EQ(block.total(), 12u);
  EXPECT_EQ(block.largest(), 3u);
  EXPECT_EQ(block.rotated(3)[1], (Range{3, 3}));
}

TEST(Blocks, OfCountsOfTheirOwn) {
  const BlockTable counts(std::vector<std::size_t>{2, 0, 5, 1});
  const Blocks block(99, 4, &counts);
  EXPECT_EQ(block[1], (Range{2, 0}));
  EXPECT_EQ(block[2], (Range{2, 5}));
  EXPECT_EQ(block[7], (Range{7, 1}));
  EXPECT_EQ(block.run(1, 3), (Range{2, 6}));
  EXPECT_EQ(block.total(), 8u);
  EXPECT_EQ(block.largest(), 5u);
  const Blocks turned = block.rotated(2);  // 5 1 2 0
  EXPECT_EQ(turned[0], (Range{0, 5}));
  EXPECT_EQ(turned[2], (Range{6, 2}));
  EXPECT_EQ(turned.total(), 8u);
}

TEST(Blocks, OfChunks) {
  const Chunks chunk(10, 4);
  const Blocks block(chunk);
  for (int i = -4; i < 8; ++i) EXPECT_EQ(block[i], chunk[i]);
  EXPECT_EQ(block.total(), 10u);
}

TEST(Ring, NextAndPrevAreInverse) {
  for (int size = 1; size < 10; ++size)
    for (int rank = 0; rank < size; ++rank) EXPECT_EQ((Ring{Ring{rank, size}.next(), size}.prev()), rank);
}

TEST(BinomialTree, ParentsAndChildrenAgreeAndSubtreesTile) {
  for (int size = 1; size <= 33; ++size)
    for (int root = 0; root < size; ++root) {
      int edges = 0;
      for (int rank = 0; rank < size; ++rank) {
        const BinomialTree tree{rank, size, root};
        int covered = 1;
        int before = size + 1;
        for (int i = 0; i < tree.children(); ++i) {
          const auto child = tree.child(i);
          const BinomialTree below{child.rank, size, root};
          EXPECT_EQ(below.parent(), rank);
          EXPECT_EQ(below.label(), child.label);
          EXPECT_EQ(below.span(), child.span);
          EXPECT_LT(below.reach(), before) << "the largest reach comes first";
          before = below.reach();
          covered += child.span;
          ++edges;
        }
        EXPECT_EQ(covered, tree.span());
      }
      EXPECT_EQ(edges, size - 1);
    }
}

TEST(Logarithms, OfSmallNumbers) {
  EXPECT_EQ(log2_ceil(1), 0);
  EXPECT_EQ(log2_floor(1), 0);
  EXPECT_EQ(power_of_two_below(1), 1);
  for (int n = 2; n <= 1025; ++n) {
    EXPECT_LT(1 << (log2_ceil(n) - 1), n);
    EXPECT_GE(1 << log2_ceil(n), n);
    EXPECT_EQ(1 << log2_floor(n), power_of_two_below(n));
    EXPECT_LE(power_of_two_below(n), n);
    EXPECT_GT(2 * power_of_two_below(n), n);
  }
}

TEST(Modulo, IsNeverNegative) {
  EXPECT_EQ(modulo(-1, 5), 4);
  EXPECT_EQ(modulo(-5, 5), 0);
  EXPECT_EQ(modulo(12, 5), 2);
}

}  // namespace
}  // namespace tutti
