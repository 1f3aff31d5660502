// Parts of the comparison: ratios within rounds, and the formats.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "benchmarks/versus/comparison.hpp"

namespace tutti::bench {
namespace {

Comparison example() {
  Comparison what;
  what.ranks = 4;
  what.all.push_back(
      {.name = "tutti", .version = "tutti 1", .rounds = {{1024, {1, 2, 4}}, {1 << 20, {100, 100, 100}}}});
  what.all.push_back(
      {.name = "a<b&\"c\"", .version = "1,2", .against = 0, .rounds = {{1024, {3, 2, 2}}, {1 << 20, {50, 200, 400}}}});
  return what;
}

std::string printed(void (*print)(const Comparison&, std::FILE*), const Comparison& what) {
  char* text = nullptr;
  std::size_t size = 0;
  std::FILE* memory = open_memstream(&text, &size);
  print(what, memory);
  std::fclose(memory);
  std::string all(text, size);
  std::free(text);
  return all;
}

void svg(const Comparison& what, std::FILE* to) { print_svg(plot_of(what), to); }
void plot(const Comparison& what, std::FILE* to) { print_plot(plot_of(what), to); }

TEST(Comparison, RatiosAreFormedWithinARound) {
  const Comparison what = example();
  const Spread small = what.ratio(what.all[1], 1024), large = what.ratio(what.all[1], 1 << 20);
  EXPECT_DOUBLE_EQ(small.median, 1);  // of 3, 1 and 0.5; the ratio of medians differs
  EXPECT_DOUBLE_EQ(small.least, 0.5);
  EXPECT_DOUBLE_EQ(small.most, 3);
  EXPECT_DOUBLE_EQ(large.median, 2);
  EXPECT_DOUBLE_EQ(spread({4, 1, 2, 9}).median, 3);
  EXPECT_DOUBLE_EQ(what.bus_bandwidth(what.all[1], 1 << 20), (1 << 20) / 200.0 * 1e-3 * 1.5);  // allreduce on 4 ranks
}

Comparison example_of_three() {
  Comparison what = example();
  what.all.push_back(
      {.name = "other", .version = "3", .against = 0, .rounds = {{1024, {4, 5, 6}}, {1 << 20, {90, 180, 300}}}});
  return what;
}

TEST(Comparison, TheBestIsThatOfEachSize) {
  const Comparison what = example_of_three();
  const Best small = what.best(0, 1024), large = what.best(0, 1 << 20);
  EXPECT_EQ(small.peer, &what.all[1]);
  EXPECT_DOUBLE_EQ(small.ratio.median, 1);
  EXPECT_EQ(large.peer, &what.all[2]);  // by the median, although the other peer was the fastest in one round
  EXPECT_DOUBLE_EQ(large.ratio.median, 1.8);
  EXPECT_DOUBLE_EQ(large.ratio.least, 0.9);
  EXPECT_DOUBLE_EQ(large.ratio.most, 3);
  EXPECT_EQ(what.best(1, 1024).peer, nullptr);
  const std::string table = printed(print_table, what), csv = printed(print_csv, what),
                    json = printed(print_json, what);
  EXPECT_NE(table.find("  best / tutti\n"), std::string::npos) << table;
  EXPECT_NE(table.find("  1.80 (0.90 to 3.00) other\n"), std::string::npos) << table;
  EXPECT_NE(csv.find(",,,,,other,1.800,0.900,3.000\n"), std::string::npos) << csv;
  EXPECT_NE(json.find("\"ratio\": 1.8"), std::string::npos) << json;
  EXPECT_EQ(printed(print_table, example()).find("best"), std::string::npos);  // there is one peer
}

TEST(Comparison, RoundsInWhichTheStateChangedAreLeftOut) {
  Comparison what = example();
  what.flags = {{50, 60}, {60, 180}, {180, 170}};
  EXPECT_TRUE(what.counts(0) && !what.counts(1) && what.counts(2));
  const Spread small = what.ratio(what.all[1], 1024);
  EXPECT_DOUBLE_EQ(small.median, 1.75);  // of 3 and 0.5
  EXPECT_DOUBLE_EQ(what.time(what.all[0], 1024).median, 2.5);
  std::string text = printed(print_table, what);
  EXPECT_NE(text.find("2 rounds in shuffled order"), std::string::npos) << text;
  EXPECT_NE(text.find("(50 to 180); left out, because the machine's state changed or was another one: round 2\n"),
            std::string::npos)
      << text;
  what.flag_limit = 100;  // leaves one round, less than half, so all count
  EXPECT_TRUE(what.steady(0) && !what.steady(1) && !what.steady(2));
  EXPECT_TRUE(what.counts(0) && what.counts(1) && what.counts(2));
  text = printed(print_table, what);
  EXPECT_NE(text.find("in 2 of 3 rounds: TOO MANY"), std::string::npos) << text;
}

TEST(Comparison, WhatElseWasMeasuredHasATableOfItsOwn) {
  Comparison what = example();
  what.sweep.late = 2;
  for (Series& series : what.all)
    series.extras = {{1024, {{1, 10}, {2, 20}, {6, 60}}}, {1 << 20, {{1, 10}, {1, 10}, {1, 10}}}};
  what.flags = {{50, 60}, {60, 180}, {50, 50}};
  EXPECT_DOUBLE_EQ(what.extra(what.all[0], 1024, 1).median, 35);  // without the second round
  const std::string table = printed(print_table, what), csv = printed(print_csv, what),
                    json = printed(print_json, what);
  EXPECT_NE(table.find("time  waiting_cpu_pct       all_out_us\n"), std::string::npos) << table;
  EXPECT_NE(table.find("      1024  tutti                 2.50             3.50             35.0\n"), std::string::npos)
      << table;
  EXPECT_NE(csv.find(",best_ratio_max,waiting_cpu_pct,all_out_us\n"), std::string::npos) << csv;
  EXPECT_NE(csv.find(",3.500,35.000\n"), std::string::npos) << csv;
  EXPECT_NE(json.find("\"all_out_us\": 35.0"), std::string::npos) << json;
}

TEST(Comparison, CellsOfCsvAreQuotedWhereTheyMustBe) {
  const std::string text = printed(print_csv, example());
  EXPECT_NE(text.find("\ntutti,tutti 1,,allreduce,f32,1024,4,3,2.000,1.000,4.000,"), std::string::npos) << text;
  EXPECT_NE(text.find("\n\"a<b&\"\"c\"\"\",\"1,2\",,allreduce,f32,1024,4,3,2.000,2.000,3.000,"), std::string::npos)
      << text;
  EXPECT_NE(text.find(",tutti,1.000,0.500,3.000,,,,\n"), std::string::npos) << text;
}

TEST(Comparison, SmallRatiosAreNotRoundedToZero) {
  Comparison what;
  what.all.push_back({.name = "tutti", .version = "1", .rounds = {{1024, {4000}}}});
  what.all.push_back({.name = "other", .version = "1", .against = 0, .rounds = {{1024, {1.36}}}});
  const std::string csv = printed(print_csv, what), json = printed(print_json, what);
  EXPECT_NE(csv.find(",tutti,0.00034,0.00034,0.00034,"), std::string::npos) << csv;
  EXPECT_NE(json.find("\"ratio\": 0.00034"), std::string::npos) << json;
}

TEST(Comparison, TheTableSaysItAll) {
  const std::string text = printed(print_table, example());
  EXPECT_NE(text.find("3 rounds in shuffled order"), std::string::npos) << text;
  EXPECT_NE(text.find("      1024       2.00       2.00  1.00 (0.50 to 3.00)\n"), std::string::npos) << text;
  EXPECT_EQ(text.find("busy"), std::string::npos);
  Comparison busy = example();
  busy.load = 7;
  EXPECT_NE(printed(print_table, busy).find("the machine was busy when this began (load 7.0, 1 cores)"),
            std::string::npos);
}

TEST(Plot, NamesAreEscaped) {
  const std::string text = printed(svg, example());
  EXPECT_NE(text.find(">a&lt;b&amp;&quot;c&quot;<"), std::string::npos);
  EXPECT_EQ(text.find("a<b"), std::string::npos);
  std::size_t lines = 0;
  for (std::size_t at = 0; (at = text.find("<polyline points=\"", at)) != std::string::npos; ++at) ++lines;
  EXPECT_EQ(lines, 2u);
}

TEST(Plot, LettersStandForTheSeries) {
  const std::string text = printed(plot, example());
  for (const char* piece : {"allreduce of f32 (sum), 4 ranks", "A  tutti  (tutti 1)", "B  a<b&\"c\"  (1,2)", "1 KiB"})
    EXPECT_NE(text.find(piece), std::string::npos) << text;
}

TEST(Plot, OneRankMovesNothingAndIsPlottedAllTheSame) {
  Comparison what = example();
  what.ranks = 1;
  EXPECT_NE(printed(svg, what).find("</svg>"), std::string::npos);
  EXPECT_NE(printed(plot, what).find("A  tutti"), std::string::npos);
}

}  // namespace
}  // namespace tutti::bench
