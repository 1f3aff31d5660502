// The comparison's own parts: ratios within rounds, axes, the formats, and a sweep as words.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "tools/bench/axes.hpp"
#include "tools/bench/comparison.hpp"
#include "tools/bench/sweep.hpp"
#include "transports/core/status.hpp"

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

TEST(Comparison, RatiosAreFormedWithinARound) {
  const Comparison what = example();
  const Spread small = what.ratio(what.all[1], 1024), large = what.ratio(what.all[1], 1 << 20);
  EXPECT_DOUBLE_EQ(small.median, 1);  // of 3, 1 and a half; the ratio of the medians is another one
  EXPECT_DOUBLE_EQ(small.least, 0.5);
  EXPECT_DOUBLE_EQ(small.most, 3);
  EXPECT_DOUBLE_EQ(large.median, 2);
  EXPECT_DOUBLE_EQ(spread({4, 1, 2, 9}).median, 3);
  EXPECT_DOUBLE_EQ(what.bus_bandwidth(what.all[1], 1 << 20), (1 << 20) / 200.0 * 1e-3 * 1.5);  // allreduce of 4 ranks
}

TEST(Comparison, CellsOfCsvAreQuotedWhereTheyMustBe) {
  const std::string text = printed(print_csv, example());
  EXPECT_NE(text.find("\ntutti,tutti 1,,allreduce,f32,1024,4,3,2.000,1.000,4.000,"), std::string::npos) << text;
  EXPECT_NE(text.find("\n\"a<b&\"\"c\"\"\",\"1,2\",,allreduce,f32,1024,4,3,2.000,2.000,3.000,"), std::string::npos)
      << text;
  EXPECT_NE(text.find(",tutti,1.000,0.500,3.000\n"), std::string::npos) << text;
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
  const std::string text = printed(print_svg, example());
  EXPECT_NE(text.find(">a&lt;b&amp;&quot;c&quot;<"), std::string::npos);
  EXPECT_EQ(text.find("a<b"), std::string::npos);
  std::size_t lines = 0;
  for (std::size_t at = 0; (at = text.find("<polyline points=\"", at)) != std::string::npos; ++at) ++lines;
  EXPECT_EQ(lines, 2u);
}

TEST(Plot, LettersStandForTheSeries) {
  const std::string text = printed(print_plot, example());
  for (const char* piece : {"allreduce of f32 (sum), 4 ranks", "A  tutti  (tutti 1)", "B  a<b&\"c\"  (1,2)", "1 KiB"})
    EXPECT_NE(text.find(piece), std::string::npos) << text;
}

TEST(Plot, OneRankMovesNothingAndIsPlottedAllTheSame) {
  Comparison what = example();
  what.ranks = 1;
  EXPECT_NE(printed(print_svg, what).find("</svg>"), std::string::npos);
  EXPECT_NE(printed(print_plot, what).find("A  tutti"), std::string::npos);
}

std::vector<std::string> labels(const Axis& axis) {
  std::vector<std::string> all;
  for (const Tick& tick : axis.ticks()) {
    EXPECT_GE(tick.at, -1e-9);
    EXPECT_LE(tick.at, 1 + 1e-9);
    all.push_back(tick.label);
  }
  return all;
}

TEST(Axis, RoundNumbersAround) {
  using Labels = std::vector<std::string>;
  EXPECT_EQ(labels(Axis::of_sizes({8, 64, 512, 4096}, 5)), (Labels{"8 B", "64 B", "512 B", "4 KiB"}));
  EXPECT_EQ(labels(Axis::of_sizes({1 << 20}, 5)), Labels{"1 MiB"});
  EXPECT_EQ(labels(Axis::of_sizes({60}, 5)), Labels{"60 B"});
  EXPECT_EQ(labels(Axis::of_bandwidths({3, 7})), (Labels{"2", "5", "10"}));
  EXPECT_EQ(labels(Axis::of_bandwidths({0.7, 1.0})), (Labels{"0.5", "1"}));
  EXPECT_EQ(labels(Axis::of_bandwidths({1})), Labels{"1"});
  const Axis wide = Axis::of_bandwidths({0.0012, 30});
  EXPECT_DOUBLE_EQ(wide.at(0.001), 0);
  EXPECT_DOUBLE_EQ(wide.at(50), 1);
  EXPECT_EQ(labels(wide)[1], "");  // 0.002 has a line and no label
}

TEST(Sweep, TravelsAsWords) {
  Sweep sweep{
      .kind = Kind::send, .first = 3, .last = 1LL << 40, .factor = 7, .dtype = DType::bf16, .op = premul_sum(2.0)};
  sweep.root = 2;
  sweep.iterations = 9;
  sweep.warmup = 0;
  sweep.check = sweep.touch = sweep.in_place = false;
  const std::vector<std::string> words = words_of(sweep);
  const Sweep same = parse_sweep(words);
  EXPECT_EQ(words_of(same), words);
  EXPECT_EQ(same.kind, Kind::send);
  EXPECT_EQ(same.op.op, Op::premul_sum);
  EXPECT_EQ(same.op.factor, 2.0);
  for (const char* word : {"kind=send", "first=x", "first=0", "factor=1", "colour=red", "word"})
    EXPECT_THROW((void)parse_sweep(std::vector<std::string>{word}), Error) << word;
}

}  // namespace
}  // namespace tutti::bench
