// `tutti plot`: axes with round ticks, what is read from runs, and pictures of few values.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/refusal.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tools/plot/axis.hpp"
#include "tools/plot/picture.hpp"

namespace tutti::plot {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

std::vector<std::string> labels(const Axis& axis) {
  std::vector<std::string> found;
  for (const Tick& tick : axis.ticks()) found.push_back(tick.label);
  return found;
}

TEST(Axis, HasRoundTicks) {
  EXPECT_THAT(labels(Axis::linear(0, 97)), ElementsAre("0", "20", "40", "60", "80", "100"));
  EXPECT_THAT(labels(Axis::linear(96.9, 98.6)), ElementsAre("96.5", "97.0", "97.5", "98.0", "98.5", "99.0"));
  EXPECT_THAT(labels(Axis::linear(0, 61000)), ElementsAre("0", "20k", "40k", "60k", "80k"));
  EXPECT_THAT(labels(Axis::linear(5, 5)), ElementsAre("4.4", "4.6", "4.8", "5.0", "5.2", "5.4", "5.6"));
  EXPECT_THAT(labels(Axis::logarithmic(0.06, 2.3)), ElementsAre("0.05", "0.1", "0.2", "0.5", "1", "2", "5"));
  EXPECT_THAT(labels(Axis::logarithmic(0.002, 3)), ElementsAre("0.001", "0.01", "0.1", "1", "10"));
}

TEST(Axis, PutsValuesBetweenItsEnds) {
  const Axis linear = Axis::linear(0, 97), logarithmic = Axis::logarithmic(0.002, 3);
  EXPECT_DOUBLE_EQ(linear.at(0), 0);
  EXPECT_DOUBLE_EQ(linear.at(25), 0.25);
  EXPECT_DOUBLE_EQ(linear.at(100), 1);
  EXPECT_NEAR(logarithmic.at(0.001), 0, 1e-12);
  EXPECT_NEAR(logarithmic.at(0.1), 0.5, 1e-12);
  EXPECT_NEAR(logarithmic.at(10), 1, 1e-12);
}

class Runs : public ::testing::Test {
 protected:
  void write(const char* file, const std::string& text) const { std::ofstream(folder_ / file) << text; }
  std::string why_not() const {
    return testing::refusal([&] { read_history(folder_); });
  }

  const testing::TemporaryFolder temporary_;
  const fs::path folder_ = temporary_.path();
};

TEST_F(Runs, AreReadByTheNamesOfColumns) {
  write("metrics.csv",
        "epoch,held_out_loss,accuracy,train_loss,samples_per_second\n1,nan,nan,2,100\n2,1.5,0.5,1,300\n");
  const History run = read_history(folder_);
  EXPECT_THAT(run.train_loss, ElementsAre(Pair(1, 2), Pair(2, 1)));
  EXPECT_THAT(run.held_out_loss, ElementsAre(Pair(2, 1.5)));  // there was no validation in the first epoch
  EXPECT_EQ(run.metric, "accuracy");
  EXPECT_THAT(run.values, ElementsAre(Pair(2, 50)));
  write("validations.csv", "step,epoch,held_out_loss,accuracy\n5,0.5,1.9,0.25\n15,1.5,1.6,0.4\n");
  EXPECT_THAT(read_history(folder_).values, ElementsAre(Pair(0.5, 25), Pair(1.5, 40)));
}

TEST_F(Runs, ShowWhenRanksWereLost) {
  write("metrics.csv", "epoch,train_loss,held_out_loss,samples_per_second\n1,2,3,0\n2,1,2,50\n");
  write("ranks.csv", "epoch,step,ranks\n0,0,4\n0.5,10,3\n0.75,15,4\n1.25,25,2\n");
  const History run = read_history(folder_);
  EXPECT_THAT(run.ranks, ElementsAre(Pair(0, 4), Pair(0.5, 3), Pair(0.75, 4), Pair(1.25, 2)));
  EXPECT_THAT(run.samples_per_second, ElementsAre(Pair(2, 50)));  // the end of the first epoch was made again
  const std::string svg = picture({&run, 1});
  EXPECT_THAT(svg, HasSubstr("50 samples/s; lost ranks 2 times (dotted)"));
  std::size_t lines = 0;
  for (std::size_t at = 0; (at = svg.find("stroke-dasharray=\"2 3\"", at)) != svg.npos; ++at) ++lines;
  EXPECT_EQ(lines, 2U * 2U);  // in both panels
}

TEST_F(Runs, ThatCannotBeReadAreNamed) {
  EXPECT_THAT(why_not(), HasSubstr("has no metrics.csv"));
  write("metrics.csv", "epoch,train_loss\n");
  EXPECT_THAT(why_not(), HasSubstr("no column 'samples_per_second'"));
  write("metrics.csv", "epoch,train_loss,held_out_loss,samples_per_second\n");
  EXPECT_THAT(why_not(), HasSubstr("no epoch has ended yet"));
  write("metrics.csv", "epoch,train_loss,held_out_loss,samples_per_second\n1,2,3,4\n2,x,3,4\n");
  EXPECT_THAT(why_not(), AllOf(HasSubstr("metrics.csv:3: "), HasSubstr("'x'")));
  write("metrics.csv", "epoch,train_loss,held_out_loss,samples_per_second\n1,2\n");
  EXPECT_THAT(why_not(), HasSubstr("metrics.csv:2: expected 4 numbers"));
}

TEST(Picture, OfOneEpochHasADotAndNoPanelWithoutAMetric) {
  const std::vector<History> runs{
      {.name = "a<b&c", .train_loss = {{1, 0.5}}, .held_out_loss = {{1, 0.4}}, .samples_per_second = {{1, 12345}}}};
  const std::string svg = picture(runs);
  EXPECT_THAT(svg, AllOf(HasSubstr("a&lt;b&amp;c: best held-out loss 0.4 in epoch 1, 12.3k samples/s"),
                         HasSubstr("<circle"), HasSubstr("</svg>")));
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  EXPECT_EQ(svg.find("accuracy"), std::string::npos);
}

}  // namespace
}  // namespace tutti::plot
