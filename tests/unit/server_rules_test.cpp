// The standard rules of a parameter server, and examples of users' rules, against numbers worked out by hand.
#include <gmock/gmock.h>

#include <cmath>

#include "collectives/parameter_server/elements.hpp"
#include "collectives/parameter_server/protocol.hpp"
#include "collectives/parameter_server/serialization.hpp"
#include "collectives/parameter_server/sharding.hpp"
#include "tests/support/played_shard.hpp"
#include "tests/support/refusal.hpp"

namespace tutti::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using NamedRule = std::pair<std::string, ServerRule>;

NamedRule standard(const std::string& name) { return {name, standard_rules().at(name)}; }
std::span<double> doubles(const Buffer& buffer) { return {elements<double>(buffer), buffer.count}; }
std::span<const double> doubles(const ConstBuffer& buffer) { return {elements<double>(buffer), buffer.count}; }

TEST(ServerRules, StandardOnes) {
  PlayedShard played({1, 2, 3}, 1);
  played.push(standard("add"), {1, 1, 1}, {.worker = 0});
  EXPECT_THAT(played.values(), ElementsAre(2, 3, 4));
  played.push(standard("scaled_add"), {2, 4, 6}, {.worker = 0, .factor = -0.5});
  EXPECT_THAT(played.values(), ElementsAre(1, 1, 1));
  played.push(standard("copy"), {7, 8, 9}, {.worker = 0});
  EXPECT_THAT(played.values(), ElementsAre(7, 8, 9));
  played.push(standard("copy"), {5}, {.worker = 0}, {1, 1});
  EXPECT_THAT(played.values(), ElementsAre(7, 5, 9));
  played.push(standard("zero"), {}, {.worker = 0}, {2, 1});
  EXPECT_THAT(played.values(), ElementsAre(7, 5, 0));
  EXPECT_EQ(played.shard.version(), 5u);
  ASSERT_EQ(played.answers.size(), 5u);
  for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(played.answers[i].version, i + 1);
  EXPECT_THAT(numbers(played.answers[0].values), ElementsAre(2, 3, 4)) << "an answer keeps the values of its time";
  EXPECT_THAT(numbers(played.answers[3].values), ElementsAre(5));
}

// The sum of both is conserved, and with equal rates the gap shrinks by 1 - 2a.
TEST(ServerRules, ElasticDifference) {
  PlayedShard played({1}, 1);
  double x = 5, gap = 4;
  for (int round = 0; round < 10; ++round) {
    played.push(standard("elastic"), {x}, {.worker = 0, .factor = 0.25});
    const double d = numbers(played.answers.back().values).at(0);
    EXPECT_NEAR(d, 0.25 * gap, 1e-12);
    x -= d;
    EXPECT_DOUBLE_EQ(x + played.values()[0], 6);
    gap *= 1 - 2 * 0.25;
    EXPECT_NEAR(x - played.values()[0], gap, 1e-12);
  }
}

template <class T>
void expect_exact_sums(DType dtype) {
  Shard shard({.server = 0, .range = {10, 3}, .dtype = dtype, .staleness = {}});
  shard.enter(0);
  const std::vector<T> data{T(1.5f), T(-2.0f), T(0.25f)};
  const ServerRules rules = standard_rules();
  Answers answers;
  for (const char* name : {"add", "scaled_add", "elastic"})
    shard.push({.name = name,
                .rule = &rules.at(name),
                .range = {10, 3},
                .data = Block::copy_of(std::as_bytes(std::span(data))),
                .dtype = dtype,
                .meta = {.worker = 0, .factor = 0.5}},
               {}, answers);
  const auto* const values = reinterpret_cast<const T*>(shard.values().data());
  for (std::size_t i = 0; i < 3; ++i) {  // v = d; v += d/2; v += (d - v)/2
    const float d = static_cast<float>(data[i]);
    EXPECT_EQ(static_cast<float>(values[i]), 1.25f * d) << name(dtype);
  }
}

TEST(ServerRules, EveryFloatingPointType) {
  expect_exact_sums<f16>(DType::f16);
  expect_exact_sums<bf16>(DType::bf16);
  expect_exact_sums<float>(DType::f32);
  expect_exact_sums<double>(DType::f64);
  EXPECT_THAT(refusal([] {
                Shard({.server = 0, .range = {0, 1}, .dtype = DType::i32, .staleness = {}});
              }),
              HasSubstr("f16, bf16, f32 or f64, not i32"));
}

TEST(ServerRules, DataOfAnotherTypeIsConverted) {
  PlayedShard played({0, 0}, 1);
  const ServerRules rules = standard_rules();
  const std::vector<bf16> data{bf16(1.5f), bf16(-3.0f)};
  played.shard.push({.name = "add",
                     .rule = &rules.at("add"),
                     .range = {0, 2},
                     .data = Block::copy_of(std::as_bytes(std::span(data))),
                     .dtype = DType::bf16,
                     .meta = {.worker = 0}},
                    {}, played.answers);
  EXPECT_THAT(played.values(), ElementsAre(1.5, -3));
}

TEST(ServerRules, WhatDoesNotFitIsAnswered) {
  PlayedShard played({1, 2}, 1);
  played.push(standard("add"), {1}, {.worker = 0});
  ASSERT_EQ(played.answers.size(), 1u);
  EXPECT_EQ(played.answers[0].code, Code::invalid);
  EXPECT_THAT(played.answers[0].text, HasSubstr("carries 8 bytes, and not 2 elements of f64"));
  const NamedRule throws{"throws", {.apply = [](const ShardView&, auto) { throw std::runtime_error("no such luck"); }}};
  played.push(throws, {1, 1}, {.worker = 0});
  EXPECT_THAT(played.answers[1].text, HasSubstr("the rule 'throws' failed: no such luck"));
  EXPECT_EQ(played.shard.version(), 0u);
  EXPECT_THAT(played.values(), ElementsAre(1, 2));
}

// Liu et al., "Asynchronous Local-SGD Training for Language Modeling", 2024: gamma 1, mu .9, N 2.
TEST(ServerRules, DelayedNesterov) {
  const NamedRule rule{"delayed",
                       {.apply =
                            [](const ShardView& shard, std::span<const Pushed> pushed) {
                              const double gamma = 1, mu = 0.9, n = 2;
                              const auto theta = doubles(shard.values), v = doubles(shard.slots[0]),
                                         sum = doubles(shard.slots[1]);
                              for (const Pushed& one : pushed) {
                                const bool last = std::fmod(++shard.scalars[0], n) == 0;
                                for (std::size_t i = 0; i < theta.size(); ++i) {
                                  const double g = doubles(one.data)[i];
                                  theta[i] -= gamma * g / n;
                                  sum[i] += g;
                                  if (!last) continue;
                                  v[i] = mu * v[i] + sum[i] / n;
                                  theta[i] -= gamma * mu * v[i];
                                  sum[i] = 0;
                                }
                              }
                            },
                        .slots = 2,
                        .scalars = 1}};
  PlayedShard played({0}, 2);
  std::vector<double> path;
  for (const int arrival : {1, 3, 1, 3}) {
    played.push(rule, {static_cast<double>(arrival)}, {.worker = arrival / 2});
    path.push_back(played.values()[0]);
  }
  const std::vector<double> right{-0.5, -3.8, -4.3, -9.22};
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(path[i], right[i], 1e-12);
}

// DiLoCo (Douillard et al., 2023) by rounds of two workers whose gradients are 1 and 3: inner rate .1, 2 steps, outer
// rate .7, momentum .9.
TEST(ServerRules, DiLoCoByRounds) {
  const NamedRule rule{"diloco",
                       {.apply =
                            [](const ShardView& shard, std::span<const Pushed> pushed) {
                              const auto theta = doubles(shard.values), v = doubles(shard.slots[0]);
                              double d = 0;
                              for (const Pushed& one : pushed) d += doubles(one.data)[0];
                              d /= static_cast<double>(pushed.size());
                              v[0] = 0.9 * v[0] + d;
                              theta[0] -= 0.7 * (d + 0.9 * v[0]);
                            },
                        .slots = 1,
                        .quorum = 2}};
  PlayedShard played({1}, 2);
  for (const double right : {0.468, -0.2908, -1.25372}) {
    const double start = played.values()[0];
    for (const int worker : {1, 0}) {
      const double x = start - 2 * 0.1 * (worker == 0 ? 1 : 3);
      played.push(rule, {start - x}, {.worker = worker});
    }
    EXPECT_NEAR(played.values()[0], right, 1e-12);
  }
  EXPECT_EQ(played.shard.version(), 3u);
}

// Pushed::staleness is the number of updates since the version that the push was computed from.
TEST(ServerRules, SeeHowStaleAPushIs) {
  std::vector<std::uint64_t> seen;
  const NamedRule rule{"note", {.apply = [&](const ShardView&, std::span<const Pushed> pushed) {
                         seen.push_back(pushed[0].staleness);
                       }}};
  PlayedShard played({0}, 2);
  played.push(rule, {1}, {.worker = 0, .version = 0});
  played.push(rule, {1}, {.worker = 1, .version = 0});
  played.push(rule, {1}, {.worker = 0, .version = 1});
  played.push(rule, {1}, {.worker = 1});
  EXPECT_THAT(seen, ElementsAre(0, 1, 1, 0));
}

TEST(Sharding, CoversExactly) {
  for (std::size_t servers = 1; servers <= 9; ++servers)
    for (const std::size_t count : {std::size_t{0}, std::size_t{1}, servers - 1, servers, std::size_t{911 * 101}}) {
      const std::vector<Range> shards = even_shards(count, servers);
      ASSERT_EQ(shards.size(), servers);
      std::size_t next = 0;
      for (std::size_t i = 0; i < servers; ++i) {
        EXPECT_EQ(shards[i].offset, next);
        EXPECT_EQ(shards[i].count, count / servers + (i < count % servers ? 1 : 0));
        next = shards[i].end();
      }
      EXPECT_EQ(next, count);
    }
  EXPECT_THAT(shards_of(std::vector<std::size_t>{3, 0, 2}), ElementsAre(Range{0, 3}, Range{3, 0}, Range{3, 2}));
  EXPECT_EQ(common({0, 4}, {2, 9}), (Range{2, 2}));
  EXPECT_EQ(common({0, 4}, {4, 9}).count, 0u);
}

TEST(Frames, AreReadAsTheyWereWritten) {
  const std::vector<std::size_t> counts{4, 0, 3};
  for (const auto staleness : {std::optional<std::uint64_t>(), std::optional<std::uint64_t>(5)}) {
    const Opening opening{"layer/1", 7, DType::bf16, staleness, shards_of(counts)};
    EXPECT_EQ(Opening::read(opening.serialize(), 3), opening);
    const auto bytes = opening.serialize();
    for (std::size_t cut = 0; cut < bytes.size(); ++cut)
      EXPECT_THAT(refusal([&] { Opening::read(std::span(bytes).first(cut), 3); }, Code::protocol),
                  HasSubstr("cut short"));
  }
  const auto refused = [&](std::uint64_t count, DType dtype, const std::vector<std::size_t>& shards) {
    const auto bytes = Opening{"w", count, dtype, {}, shards_of(shards)}.serialize();
    return refusal([&] { Opening::read(bytes, 2); });
  };
  EXPECT_THAT(refused(std::uint64_t{1} << 62, DType::f32, {std::size_t{1} << 62, 0}), HasSubstr("an address space"));
  EXPECT_THAT(refused(8, DType::f32, {4, 5}), HasSubstr("more elements than the buffer"));
  EXPECT_THAT(refused(8, DType::f32, {4, 3}), HasSubstr("fewer elements than the buffer"));
  EXPECT_THAT(refused(8, DType::f32, {4, 2, 2}), HasSubstr("3 shards for 2 servers"));
  EXPECT_THAT(refused(8, DType::i32, {4, 4}), HasSubstr("f16, bf16, f32 or f64"));
  EXPECT_THAT(refused(8, static_cast<DType>(99), {4, 4}), HasSubstr("f16, bf16, f32 or f64"));
  const std::map<std::string, std::string> settings{{"", "x"}, {"every", "10"}, {"wire", ""}};
  EXPECT_EQ(read_settings(serialize(settings)), settings);
  EXPECT_TRUE(read_settings({}).empty());
  // 2^24 replies in flight have distinct tags for header, values and text.
  EXPECT_EQ(protocol::reply_tag(0), 16);
  EXPECT_GT(protocol::reply_tag(protocol::replies_at_once - 1), 0);
  EXPECT_EQ(protocol::text_tag(5), protocol::reply_tag(5) + 2);
  EXPECT_NE(protocol::id_of("add"), protocol::id_of("copy"));
}

}  // namespace
}  // namespace tutti::testing
