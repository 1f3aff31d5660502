// Signatures: equal on all ranks of a matching call, different if calls differ; and their text.
#include "tutti/collective.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace tutti {
namespace {

constexpr int size = 4;
// Signatures do not read elements, so any address is sufficient.
std::byte memory[1];

ConstBuffer in(std::size_t count, DType dtype = DType::f32) { return {memory, count, dtype}; }
Buffer out(std::size_t count, DType dtype = DType::f32) { return {memory, count, dtype}; }

Collective call(Kind kind, ConstBuffer from, Buffer to, Reduction op = sum, int root = 0) {
  Collective c;
  c.kind = kind;
  c.in = from;
  c.out = to;
  c.op = op;
  c.root = root;
  return c;
}

std::string text(const Collective& c, int rank = 0) { return describe(signature(c, rank, size)); }

TEST(CollectiveTest, KindNamesParse) {
  for (int k = 0; k < kind_count; ++k) EXPECT_EQ(parse_kind(name(static_cast<Kind>(k))), static_cast<Kind>(k));
  EXPECT_EQ(parse_kind("all_reduce"), std::nullopt);
  EXPECT_EQ(parse_kind(""), std::nullopt);
  EXPECT_EQ(name(static_cast<Kind>(12)), "unknown");
}

TEST(CollectiveTest, TypeAndOperatorNamesParse) {
  for (int i = 0; i < dtype_count; ++i) EXPECT_EQ(parse_dtype(name(static_cast<DType>(i))), static_cast<DType>(i));
  for (int i = 0; i < op_count; ++i) EXPECT_EQ(parse_op(name(static_cast<Op>(i))), static_cast<Op>(i));
  EXPECT_EQ(name(DType::bf16), "bf16");
  EXPECT_EQ(name(Op::premul_sum), "premul_sum");
  EXPECT_EQ(parse_dtype("float"), std::nullopt);
  EXPECT_EQ(parse_op("average"), std::nullopt);
}

TEST(CollectiveTest, Describes) {
  EXPECT_EQ(text(call(Kind::allreduce, in(1024), out(1024))), "allreduce(sum, f32, count 1024)");
  EXPECT_EQ(text(call(Kind::reduce, in(5, DType::i64), {}, max, 3)), "reduce(max, root 3, i64, count 5)");
  EXPECT_EQ(text(call(Kind::broadcast, {}, out(7, DType::i8), sum, 2)), "broadcast(root 2, i8, count 7)");
  EXPECT_EQ(text(call(Kind::allgather, in(3), out(12))), "allgather(f32, count 3)");
  EXPECT_EQ(text(call(Kind::reduce_scatter, in(12, DType::bf16), out(3, DType::bf16), avg)),
            "reduce_scatter(avg, bf16, count 3)");
  EXPECT_EQ(text(call(Kind::gather, in(3), {}, sum, 1)), "gather(root 1, f32, count 3)");
  EXPECT_EQ(text(call(Kind::scatter, {}, out(3), sum, 1)), "scatter(root 1, f32, count 3)");
  EXPECT_EQ(text(call(Kind::alltoall, in(12), out(12))), "alltoall(f32, count 3)");
  EXPECT_EQ(text(call(Kind::barrier, {}, {})), "barrier");
  EXPECT_EQ(text(call(Kind::send, in(7), {})), "send/recv(f32, count 7)");
}

TEST(CollectiveTest, VariableFormsLeaveTheCountOut) {
  Collective c = call(Kind::alltoall, in(9), out(11));
  c.variable = true;
  EXPECT_EQ(text(c), "alltoallv(f32)");
  Collective other = call(Kind::alltoall, in(2), out(0));
  other.variable = true;
  EXPECT_EQ(signature(c, 0, size), signature(other, 1, size));
  EXPECT_NE(signature(c, 0, size), signature(call(Kind::alltoall, in(0), out(0)), 0, size));
  Collective scatterv = call(Kind::scatter, in(9), out(2), sum, 2);
  scatterv.variable = true;
  EXPECT_EQ(text(scatterv), "scatterv(root 2, f32)");
}

TEST(CollectiveTest, RootAndOthersAgree) {
  const auto same = [](const Collective& at_root, const Collective& elsewhere) {
    return signature(at_root, 2, size) == signature(elsewhere, 0, size);
  };
  EXPECT_TRUE(same(call(Kind::reduce, in(5), out(5), sum, 2), call(Kind::reduce, in(5), {}, sum, 2)));
  EXPECT_TRUE(same(call(Kind::broadcast, in(5), out(5), sum, 2), call(Kind::broadcast, {}, out(5), max, 2)));
  EXPECT_TRUE(same(call(Kind::gather, in(5), out(20), sum, 2), call(Kind::gather, in(5), {}, sum, 2)));
  EXPECT_TRUE(same(call(Kind::scatter, in(20), out(5), sum, 2), call(Kind::scatter, {}, out(5), sum, 2)));
  EXPECT_TRUE(same(call(Kind::send, in(5), {}), call(Kind::send, {}, out(5))));
  EXPECT_TRUE(same(call(Kind::send, ConstBuffer(nullptr, 0, DType::i64), {}),
                   call(Kind::send, {}, Buffer(memory, 0, DType::u8))) == false);  // even of 0 elements: the dtype
}

TEST(CollectiveTest, DifferencesShow) {
  const Collective base = call(Kind::allreduce, in(64), out(64));
  const auto differs = [&](const Collective& c) { return signature(base, 0, size) != signature(c, 0, size); };
  EXPECT_TRUE(differs(call(Kind::allreduce, in(65), out(65))));
  EXPECT_TRUE(differs(call(Kind::allreduce, in(64, DType::i32), out(64, DType::i32))));
  EXPECT_TRUE(differs(call(Kind::allreduce, in(64), out(64), max)));
  EXPECT_TRUE(differs(call(Kind::reduce, in(64), out(64))));
  EXPECT_NE(signature(call(Kind::broadcast, {}, out(4), sum, 0), 0, size),
            signature(call(Kind::broadcast, {}, out(4), sum, 1), 1, size));
}

TEST(CollectiveTest, WhatMayDifferDoesNotShow) {
  EXPECT_EQ(signature(call(Kind::allreduce, in(8), out(8), premul_sum(0.5)), 0, size),
            signature(call(Kind::allreduce, in(8), out(8), premul_sum(2)), 1, size));
  EXPECT_EQ(signature(call(Kind::allgather, in(8), out(32), sum, 1), 0, size),
            signature(call(Kind::allgather, in(8), out(32), max, 0), 1, size));
  EXPECT_EQ(signature(call(Kind::barrier, in(8, DType::f64), out(9), max, 2), 0, size),
            signature(call(Kind::barrier, {}, {}), 1, size));
}

TEST(CollectiveTest, LargeFieldsFit) {
  EXPECT_EQ(text(call(Kind::broadcast, {}, out((std::size_t{1} << 36) - 2, DType::f64), sum, 32767)),
            "broadcast(root 32767, f64, count 68719476734)");
  EXPECT_EQ(text(call(Kind::broadcast, {}, out(1000, DType::f64), sum, 32768)),
            "broadcast(root 32768, f64, count 1000)");
  EXPECT_EQ(text(call(Kind::broadcast, {}, out(std::size_t{1} << 27, DType::f64), sum, 65535)),
            "broadcast(root 65535, f64, count of at least 134217727)");
  const Collective huge = call(Kind::allreduce, in(std::size_t{1} << 40), out(std::size_t{1} << 40), premul_sum(3));
  EXPECT_EQ(text(huge), "allreduce(premul_sum, f32, count of at least 68719476735)");
}

TEST(CollectiveTest, SignaturesAreWholeWhereNothingIsLeftOut) {
  const auto is_known = [](const Collective& c) { return is_whole(signature(c, 0, size)); };
  EXPECT_TRUE(is_known(call(Kind::allreduce, in(8), out(8))));
  EXPECT_TRUE(is_known(call(Kind::barrier, {}, {})));
  EXPECT_FALSE(is_known(call(Kind::allreduce, in(std::size_t{1} << 40), out(std::size_t{1} << 40))));
  Collective variable = call(Kind::allgather, in(8), out(32));
  variable.variable = true;
  EXPECT_FALSE(is_known(variable));
  EXPECT_FALSE(is_whole({}));
}

TEST(CollectiveTest, AnyBitsHaveAText) {
  std::uint64_t bits = 1;
  for (int i = 0; i < 1000; ++i) {
    bits = bits * 6364136223846793005u + 1442695040888963407u;
    EXPECT_FALSE(describe({bits}).empty());
  }
  EXPECT_EQ(describe({~std::uint64_t{0}}).find("unknown"), 0u);
  EXPECT_EQ(describe({}), "a collective") << "nothing is known of it";
}

}  // namespace
}  // namespace tutti
