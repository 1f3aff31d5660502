// Rules that choose algorithms: their text, their order, and what is chosen where a rule's algorithm cannot.
#include "collectives/selector.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/caught.hpp"

namespace tutti {
namespace {

using testing::caught;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr std::size_t kib = 1024;

std::string chosen(const Selector& selector, const Call& call) {
  const Algorithm* algorithm = selector.choose(call);
  return algorithm ? std::string(algorithm->name) : "none";
}

TEST(ParseRules, ReadsRangesOfBytesAndRanks) {
  const auto rules =
      parse_rules("allreduce: ..64K=recursive_doubling, 64K..2M@3..8=ring; broadcast: ..@4..=chain", "here");
  ASSERT_EQ(rules.size(), 3u);
  EXPECT_EQ(rules[0].kind, Kind::allreduce);
  EXPECT_EQ(rules[0].low, 0u);
  EXPECT_EQ(rules[0].high, 64 * kib);
  EXPECT_EQ(rules[0].size_low, 1);
  EXPECT_EQ(rules[0].size_high, INT32_MAX);
  EXPECT_EQ(rules[0].algorithm, "recursive_doubling");
  EXPECT_EQ(rules[0].source, "here");
  EXPECT_EQ(rules[1].low, 64 * kib);
  EXPECT_EQ(rules[1].high, 2048 * kib);
  EXPECT_EQ(rules[1].size_low, 3);
  EXPECT_EQ(rules[1].size_high, 8);
  EXPECT_EQ(rules[2].kind, Kind::broadcast);
  EXPECT_EQ(rules[2].low, 0u);
  EXPECT_EQ(rules[2].high, SIZE_MAX);
  EXPECT_EQ(rules[2].size_low, 4);
  EXPECT_EQ(rules[2].size_high, INT32_MAX);
}

TEST(ParseRules, BlanksAndEmptyPartsMeanNothing) {
  EXPECT_TRUE(parse_rules("", "here").empty());
  EXPECT_TRUE(parse_rules(" ; ;\n", "here").empty());
  const auto rules = parse_rules("  allreduce :\t1K .. 2K @ 2 .. 4 = ring , ;", "here");
  ASSERT_EQ(rules.size(), 1u);
  EXPECT_EQ(to_string(rules[0]), "allreduce: 1024..2048@2..4=ring");
}

TEST(ParseRules, WhatIsPrintedReadsTheSame) {
  for (const std::string text : {"allreduce: ..=ring", "allreduce: 5..=ring", "allreduce: ..5=ring",
                                 "allreduce: 5..5@2..=ring", "allgather: ..@1..7=bruck", "barrier: ..=dissemination"}) {
    const auto rules = parse_rules(text, "here");
    ASSERT_EQ(rules.size(), 1u) << text;
    const auto again = parse_rules(to_string(rules[0]), "here");
    ASSERT_EQ(again.size(), 1u) << text;
    EXPECT_EQ(to_string(again[0]), to_string(rules[0]));
  }
  EXPECT_EQ(to_string(parse_rules("allreduce: 4K..@3..=tree", "")[0]), "allreduce: 4096..@3..=tree");
}

TEST(ParseRules, ExactWordsForWhatCannotBeRead) {
  const std::string hint = "; write for example 'allreduce: ..64K=recursive_doubling, 64K..=ring'";
  const std::pair<std::string, std::string> table[] = {
      {"ring", "cannot read the selection rule 'ring': 'kind:' is missing"},
      {"allreduce=ring", "cannot read the selection rule 'allreduce=ring': 'kind:' is missing"},
      {"allredcue: ..=ring", "cannot read the selection rule 'allredcue: ..=ring': there is no collective 'allredcue'"},
      {"allreduce: ..64K", "cannot read the selection rule '..64K': '=algorithm' is missing"},
      {"allreduce: ..64K=ring, 7", "cannot read the selection rule '7': '=algorithm' is missing"},
      {"allreduce: 64K=ring", "cannot read the selection rule '64K=ring': a range LOW..HIGH is missing"},
      {"allreduce: ..@2=ring", "cannot read the selection rule '..@2=ring': a range LOW..HIGH is missing"},
      {"allreduce: 2K..1K=ring", "cannot read the selection rule '2K..1K=ring': the range is empty"},
      {"allreduce: ..@4..3=ring", "cannot read the selection rule '..@4..3=ring': the range is empty"},
      {"broadcast: ..=ring",
       "cannot read the selection rule '..=ring': broadcast has no algorithm 'ring', but binomial, chain, linear, "
       "scatter_allgather"},
      {"barrier: ..=", "cannot read the selection rule '..=': barrier has no algorithm '', but dissemination"},
  };
  for (const auto& [text, why] : table) {
    const Error error = caught([&] { parse_rules(text, "here"); });
    EXPECT_EQ(error.code(), Code::invalid) << text;
    EXPECT_EQ(std::string(error.what()), why + hint);
  }
}

TEST(ParseRules, NumbersThatAreNone) {
  for (const std::string text : {"x..", "..1e3", "-1..", "..9999999999G", "1T.."}) {
    const Error error = caught([&] { parse_rules("allreduce: " + text + "=ring", "here"); });
    EXPECT_EQ(error.code(), Code::invalid) << text;
    EXPECT_THAT(error.what(), HasSubstr("is not a number of bytes")) << text;
  }
}

TEST(Selector, TheFirstRuleThatMatchesWins) {
  const Selector selector("allreduce: ..100=tree, ..100=ring, 50..=direct");
  EXPECT_EQ(chosen(selector, {.bytes = 0, .size = 4}), "tree");
  EXPECT_EQ(chosen(selector, {.bytes = 100, .size = 4}), "tree");
  EXPECT_EQ(chosen(selector, {.bytes = 101, .size = 4}), "direct");
}

TEST(Selector, RanksBoundARuleAtBothEnds) {
  const Selector selector("allreduce: ..@3..5=tree, ..=ring");
  for (const int size : {1, 2, 6, 100}) EXPECT_EQ(chosen(selector, {.bytes = 8, .size = size}), "ring") << size;
  for (const int size : {3, 4, 5}) EXPECT_EQ(chosen(selector, {.bytes = 8, .size = size}), "tree") << size;
}

TEST(Selector, OverridesComeBeforeTheBuiltInRulesAndLeaveTheRestAlone) {
  const Selector plain(""), selector("allreduce: 1K..2K=tree");
  const Call call{.bytes = 1536, .size = 4};
  ASSERT_NE(chosen(plain, call), "tree");
  EXPECT_EQ(chosen(selector, call), "tree");
  EXPECT_EQ(selector.rules().size(), plain.rules().size() + 1);
  EXPECT_EQ(selector.rules().front().source, "TUTTI_SELECT");
  EXPECT_EQ(selector.rules().back().source, "built in");
  for (const std::size_t bytes : {std::size_t{8}, 1 * kib - 1, 2 * kib + 1, 1024 * kib}) {
    EXPECT_EQ(chosen(selector, {.bytes = bytes, .size = 4}), chosen(plain, {.bytes = bytes, .size = 4})) << bytes;
    const Call other{.kind = Kind::allgather, .bytes = bytes, .size = 4};
    EXPECT_EQ(chosen(selector, other), chosen(plain, other)) << bytes;
  }
}

TEST(Selector, ARuleWhoseAlgorithmDoesNotFitIsPassedOver) {
  const Selector selector("allgather: ..=recursive_doubling, ..=linear");  // powers of two only
  EXPECT_EQ(chosen(selector, {.kind = Kind::allgather, .bytes = 8, .size = 4}), "recursive_doubling");
  EXPECT_EQ(chosen(selector, {.kind = Kind::allgather, .bytes = 8, .size = 3}), "linear");
}

TEST(Selector, ARuleWhoseAlgorithmHasNoVFormIsPassedOverForIt) {
  const Selector selector("alltoall: ..=bruck, ..=linear");
  EXPECT_EQ(chosen(selector, {.kind = Kind::alltoall, .bytes = 8, .size = 4}), "bruck");
  EXPECT_EQ(chosen(selector, {.kind = Kind::alltoall, .variable = true, .size = 4}), "linear");
}

TEST(Selector, BuiltInRulesCoverEveryCall) {
  const Selector selector("");
  for (int kind = 0; kind < kind_count; ++kind) {
    const Call call{.kind = static_cast<Kind>(kind)};
    if (call.kind == Kind::send) continue;
    for (const int size : {1, 2, 3, 4, 7, 8, 64, 1000})
      for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, 16 * kib, 16 * kib + 1, std::size_t{1} << 40}) {
        const Choice choice = selector.explain({.kind = call.kind, .bytes = bytes, .size = size});
        ASSERT_NE(choice.algorithm, nullptr) << name(call.kind) << " of " << bytes << " bytes on " << size;
        EXPECT_EQ(choice.algorithm->kind, call.kind);
        EXPECT_THAT(choice.why, HasSubstr("(built in)"));
      }
  }
  for (const Kind kind : {Kind::allgather, Kind::gather, Kind::scatter, Kind::alltoall, Kind::reduce_scatter}) {
    const Algorithm* algorithm = selector.choose({.kind = kind, .variable = true, .size = 5});
    ASSERT_NE(algorithm, nullptr) << name(kind);
    EXPECT_TRUE(algorithm->variable) << name(kind);
  }
}

TEST(Selector, ExplainsWhichRuleItWasAndWhatElseThereIs) {
  const Selector selector("allgather: 64K..@3..=recursive_doubling");
  const Call call{.kind = Kind::allgather, .bytes = 64 * kib, .size = 4};
  EXPECT_EQ(
      selector.explain(call).why,
      "recursive_doubling: rule 'allgather: 65536..@3..=recursive_doubling' (TUTTI_SELECT); not chosen: bruck, linear, "
      "ring");
  EXPECT_EQ(selector.explain(call).algorithm, selector.choose(call));
  const Choice other = selector.explain({.kind = Kind::allgather, .bytes = 8, .size = 4});
  EXPECT_THAT(other.why, StartsWith("bruck: rule 'allgather: "));
  EXPECT_THAT(other.why, HasSubstr("(built in); not chosen: "));
  EXPECT_EQ(selector.explain({.kind = Kind::send}).algorithm, nullptr);
  EXPECT_EQ(selector.explain({.kind = Kind::barrier, .size = 3}).why,
            "dissemination: rule 'barrier: ..=dissemination' (built in)");
}

}  // namespace
}  // namespace tutti
