// Which rank gives and which takes each block, compared with the table in tutti/collective.hpp.
#include "transports/core/layout.hpp"

#include <gtest/gtest.h>

#include <array>
#include <span>

namespace tutti::testing {
namespace {

struct Row {
  Kind kind;
  std::size_t in, out;  // number of blocks, in a group of 4 ranks
  bool root_gives, root_takes, folds;
};
constexpr std::array rows = {
    Row{Kind::allreduce, 1, 1, false, false, true},      Row{Kind::reduce, 1, 1, false, true, true},
    Row{Kind::broadcast, 1, 1, true, false, false},      Row{Kind::allgather, 1, 4, false, false, false},
    Row{Kind::reduce_scatter, 4, 1, false, false, true}, Row{Kind::gather, 1, 4, false, true, false},
    Row{Kind::scatter, 4, 1, true, false, false},        Row{Kind::alltoall, 4, 4, false, false, false},
};

TEST(Layout, IsThatOfTheTable) {
  for (const Row& row : rows) {
    SCOPED_TRACE(name(row.kind));
    EXPECT_EQ(blocks_in(row.kind, 4), row.in);
    EXPECT_EQ(blocks_out(row.kind, 4), row.out);
    EXPECT_EQ(only_root_gives(row.kind), row.root_gives);
    EXPECT_EQ(only_root_takes(row.kind), row.root_takes);
    EXPECT_EQ(has_root(row.kind), row.root_gives || row.root_takes);
    EXPECT_EQ(folds(row.kind), row.folds);
  }
}

TEST(Layout, TheBufferThatEveryRankHasTellsTypeAndDevice) {
  float value = 0;
  Collective call;
  call.in = ConstBuffer(nullptr, 0, DType::f32);
  call.out = Buffer(&value, 1, DType::f64);
  call.out.device = {Device::Kind::cuda, 3};
  for (const Row& row : rows) {
    call.kind = row.kind;
    EXPECT_EQ(common_dtype(call), row.root_gives ? DType::f64 : DType::f32) << name(row.kind);
    EXPECT_EQ(common_device(call).index, row.root_gives ? 3 : 0) << name(row.kind);
  }
}

TEST(Layout, OnlyAlltoallInPlaceOverwritesItsInput) {
  std::array<float, 8> data{};
  for (const Row& row : rows) {
    Collective call;
    call.kind = row.kind;
    call.in = ConstBuffer(data);
    call.out = Buffer(data);
    EXPECT_EQ(overwrites_input(call), row.kind == Kind::alltoall) << name(row.kind);
    call.out = Buffer(std::span(data).last(4));
    EXPECT_FALSE(overwrites_input(call)) << name(row.kind);
  }
}

}  // namespace
}  // namespace tutti::testing
