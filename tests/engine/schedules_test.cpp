// Learning rates: every schedule's exact values, warm-ups, the state of `auto`; options and the errors for wrong ones.
#include "engine/optimizers/schedules.hpp"
#include "engine/config/tables.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "tests/support/refusal.hpp"

namespace tutti::engine {
namespace {

using ::testing::AllOf;
using ::testing::DoubleEq;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::refusal;

constexpr std::size_t steps_per_epoch = 10;

Place at_epoch(std::size_t epoch, std::size_t epochs = 90) {
  return {.step = epoch * steps_per_epoch, .steps_per_epoch = steps_per_epoch, .total_steps = epochs * steps_per_epoch};
}

std::vector<double> rates(const ScheduleSettings& settings, const std::vector<std::size_t>& epochs) {
  const Schedule schedule(settings);
  std::vector<double> rates;
  for (const std::size_t epoch : epochs) rates.push_back(schedule.rate(at_epoch(epoch)));
  return rates;
}

TEST(Schedules, Constant) { EXPECT_THAT(rates({.lr = 0.3}, {0, 1, 89}), ElementsAre(0.3, 0.3, 0.3)); }

// The tables of Theano-MPI's AlexNet and VGG-16, and of its GoogLeNet.
TEST(Schedules, StepDividesAtMilestones) {
  EXPECT_THAT(rates({.name = "step", .lr = 0.01}, {0, 19, 20, 39, 40, 60, 69}),
              ElementsAre(DoubleEq(0.01), DoubleEq(0.01), DoubleEq(0.001), DoubleEq(0.001), DoubleEq(0.0001),
                          DoubleEq(0.00001), DoubleEq(0.00001)));
  EXPECT_THAT(rates({.name = "step", .options = {{"milestones", "1,3"}, {"gamma", "0.5"}}, .lr = 1}, {0, 1, 2, 3}),
              ElementsAre(1, 0.5, 0.5, 0.25));
  EXPECT_THAT(rates({.name = "step", .options = {{"every", "2"}, {"gamma", "0.5"}}, .lr = 1}, {0, 1, 2, 3, 4}),
              ElementsAre(1, 1, 0.5, 0.5, 0.25));
}

TEST(Schedules, RootProductIsGoogLeNets) {
  const double five = std::sqrt(1 - 5 / 240.0), six = std::sqrt(1 - 6 / 240.0);
  EXPECT_THAT(rates({.name = "root_product", .lr = 0.005}, {0, 4, 5, 6}),
              ElementsAre(0.005, 0.005, DoubleEq(0.005 * five), DoubleEq(0.005 * five * six)));
}

TEST(Schedules, PolyFallsToNothing) {
  EXPECT_THAT(rates({.name = "poly", .lr = 2}, {0, 9, 45, 90}), ElementsAre(2, DoubleEq(1.8), 1, 0));
  EXPECT_THAT(rates({.name = "poly", .options = {{"power", "0.5"}}, .lr = 2}, {45}),
              ElementsAre(DoubleEq(2 * std::sqrt(0.5))));
}

TEST(Schedules, CosineBeginsAfterTheWarmUp) {
  EXPECT_THAT(rates({.name = "cosine", .lr = 2}, {0, 30, 45, 90}), ElementsAre(2, DoubleEq(1.5), 1, 0));
  EXPECT_THAT(rates({.name = "cosine", .options = {{"end", "0.25"}}, .lr = 2}, {0, 45, 90}),
              ElementsAre(2, DoubleEq(1.25), 0.5));
  const Schedule warm({.name = "cosine", .lr = 1, .warmup = 1});
  EXPECT_DOUBLE_EQ(warm.rate({.step = 0, .steps_per_epoch = 9, .total_steps = 109}), 0.1);
  EXPECT_DOUBLE_EQ(warm.rate({.step = 8, .steps_per_epoch = 9, .total_steps = 109}), 0.9);
  EXPECT_DOUBLE_EQ(warm.rate({.step = 9, .steps_per_epoch = 9, .total_steps = 109}), 1);
  EXPECT_DOUBLE_EQ(warm.rate({.step = 59, .steps_per_epoch = 9, .total_steps = 109}), 0.5);
  EXPECT_EQ(warm.rate({.step = 9, .steps_per_epoch = 9, .total_steps = 9}), 1) << "nothing but warm-up";
}

// Bitwise equal to this formula, so that earlier runs can be reproduced.
TEST(Schedules, CosineWithALinearWarmUpIsThisFormula) {
  for (const double warmup : {0.0, 0.7, 2.0, 9.0})
    for (const std::size_t total : {7U, 70U, 83U}) {
      const Schedule schedule({.name = "cosine", .lr = 0.05, .warmup = warmup});
      const double end = static_cast<double>(total), warm = std::min(warmup * 10, end);
      for (std::size_t step = 0; step < total; ++step) {
        const double at = static_cast<double>(step);
        const double expected = at < warm ? 0.05 * (at + 1) / (warm + 1)
                                : end <= warm
                                    ? 0.05
                                    : 0.05 * 0.5 * (1 + std::cos(std::numbers::pi * (at - warm) / (end - warm)));
        EXPECT_EQ(schedule.rate({.step = step, .steps_per_epoch = 10, .total_steps = total}), expected);
      }
    }
}

TEST(Schedules, DecaysGoOnWithinAnEpoch) {
  const Schedule exponential({.name = "exponential", .options = {{"gamma", "0.25"}, {"every", "2"}}, .lr = 1});
  EXPECT_DOUBLE_EQ(exponential.rate(at_epoch(2)), 0.25);
  EXPECT_DOUBLE_EQ(exponential.rate({.step = 5, .steps_per_epoch = 5, .total_steps = 99}), 0.5);
  EXPECT_DOUBLE_EQ(exponential.rate({.step = 5, .steps_per_epoch = 10, .total_steps = 99}), std::sqrt(0.5));
  const Schedule inverse({.name = "inverse_time", .options = {{"decay", "0.5"}}, .lr = 3});
  EXPECT_DOUBLE_EQ(inverse.rate(at_epoch(1)), 2);
  EXPECT_DOUBLE_EQ(inverse.rate(at_epoch(4)), 1);
}

TEST(Schedules, WarmUpsReachTheScaledRate) {
  const ScheduleSettings power{.lr = 0.1, .scale = 8, .warmup = 5, .rise = "power"};
  const std::vector<double> found = rates(power, {0, 1, 2, 3, 4, 5, 6});
  const double expected[] = {0.1, 0.1516, 0.2297, 0.3482, 0.5278, 0.8, 0.8};
  for (std::size_t epoch = 0; epoch < found.size(); ++epoch) {
    EXPECT_NEAR(found[epoch], expected[epoch], 5e-5);
    EXPECT_DOUBLE_EQ(found[epoch], 0.1 * std::pow(8, std::min<double>(static_cast<double>(epoch), 5) / 5));
  }
  EXPECT_EQ(Schedule(power).rate({.step = 19, .steps_per_epoch = 10, .total_steps = 900}), found[1]);
  const Schedule linear({.lr = 0.5, .scale = 4, .warmup = 0.3});
  for (std::size_t step = 0; step < 3; ++step)
    EXPECT_DOUBLE_EQ(linear.rate({.step = step, .steps_per_epoch = 10, .total_steps = 90}),
                     2 * static_cast<double>(step + 1) / 4);
  EXPECT_EQ(linear.rate({.step = 3, .steps_per_epoch = 10, .total_steps = 90}), 2);
}

TEST(Schedules, AutoDividesWhenErrorsNoLongerFall) {
  Schedule schedule({.name = "auto", .options = {{"first", "2"}}, .lr = 1});
  EXPECT_TRUE(schedule.observes());
  EXPECT_FALSE(schedule.observe(0, 0.500));
  EXPECT_FALSE(schedule.observe(1, 0.500));
  EXPECT_FALSE(schedule.observe(2, 0.480)) << "better by 0.02 over three records";
  EXPECT_EQ(schedule.rate(at_epoch(3)), 1);
  EXPECT_TRUE(schedule.observe(3, 0.495)) << "better by 0.005 only";
  EXPECT_DOUBLE_EQ(schedule.rate(at_epoch(4)), 0.1);
  EXPECT_FALSE(schedule.observe(4, 0.495));
  EXPECT_FALSE(schedule.observe(5, 0.495)) << "three new records come first";

  Schedule restored({.name = "auto", .options = {{"first", "2"}}, .lr = 1});
  restored.load_state(schedule.state());
  EXPECT_DOUBLE_EQ(restored.rate(at_epoch(6)), 0.1);
  EXPECT_TRUE(restored.observe(6, 0.6));
  EXPECT_DOUBLE_EQ(restored.rate(at_epoch(7)), 0.01);
  EXPECT_DOUBLE_EQ(schedule.rate(at_epoch(7)), 0.1);
}

TEST(Schedules, AutoWaitsForItsFirstEpoch) {
  Schedule schedule({.name = "auto", .lr = 1});
  for (std::size_t epoch = 0; epoch < 5; ++epoch) EXPECT_FALSE(schedule.observe(epoch, 0.5));
  EXPECT_TRUE(schedule.observe(5, 0.5));
  Schedule other({.lr = 1});
  EXPECT_FALSE(other.observes());
  for (std::size_t epoch = 0; epoch < 20; ++epoch) EXPECT_FALSE(other.observe(epoch, 0.5));
}

TEST(Schedules, OneCycleIsThatOfTorch) {
  // torch.optim.lr_scheduler.OneCycleLR(max_lr=2, total_steps=100)
  const std::pair<std::size_t, double> known[] = {{0, 0.08000000000000007},
                                                  {1, 0.08562756113181491},
                                                  {10, 0.5903278969282015},
                                                  {29, 2.0},
                                                  {30, 1.9989930705690486},
                                                  {31, 1.9959743100980631},
                                                  {65, 0.9551393491088068},
                                                  {98, 0.0010149294309515758},
                                                  {99, 8e-06}};
  const Schedule schedule({.name = "one_cycle", .lr = 2});
  for (const auto& [step, rate] : known)
    EXPECT_NEAR(schedule.rate({.step = step, .steps_per_epoch = 10, .total_steps = 100}), rate, 1e-14) << step;
  EXPECT_THAT(refusal([] { Schedule({.name = "one_cycle", .warmup_steps = 3}); }), HasSubstr("rises by itself"));
}

TEST(Schedules, PlateauIsThatOfTorch) {
  // torch.optim.lr_scheduler.ReduceLROnPlateau(factor=0.1, patience=2)
  const std::pair<double, double> known[] = {{1, 1},      {0.9, 1},     {0.9, 1},    {0.9, 1},    {0.9, 0.1},
                                             {0.9, 0.1},  {0.9, 0.1},   {0.9, 0.01}, {0.8, 0.01}, {0.7999999, 0.01},
                                             {0.8, 0.01}, {0.8, 0.001}, {0.5, 0.001}};
  Schedule schedule({.name = "plateau", .options = {{"patience", "2"}}, .lr = 1});
  ASSERT_TRUE(schedule.observes());
  for (std::size_t epoch = 0; epoch < std::size(known); ++epoch) {
    schedule.observe(epoch, known[epoch].first);
    Schedule restored({.name = "plateau", .options = {{"patience", "2"}}, .lr = 1});
    restored.load_state(schedule.state());
    schedule = restored;
    EXPECT_DOUBLE_EQ(schedule.rate(at_epoch(epoch + 1)), known[epoch].second) << epoch;
  }
}

TEST(Schedules, AWarmUpMayBeInSteps) {
  const Schedule schedule({.lr = 2, .warmup_steps = 4});
  for (std::size_t step = 0; step < 4; ++step)
    EXPECT_DOUBLE_EQ(schedule.rate({.step = step, .steps_per_epoch = 10, .total_steps = 90}),
                     2 * static_cast<double>(step + 1) / 5);
  EXPECT_EQ(schedule.rate({.step = 4, .steps_per_epoch = 10, .total_steps = 90}), 2);
}

TEST(Schedules, RefusalsSayWhatThereIs) {
  EXPECT_THAT(refusal([] { Schedule({.name = "cosin"}); }),
              AllOf(HasSubstr("schedule 'cosin'"), HasSubstr("'cosine'")));
  EXPECT_THAT(refusal([] { Schedule({.name = "whatsoever"}); }), HasSubstr("constant, step, poly"));
  EXPECT_THAT(refusal([] { Schedule({.name = "step", .options = {{"gama", "1"}}}); }), HasSubstr("'gamma'"));
  EXPECT_THAT(refusal([] { Schedule({.name = "step", .options = {{"gamma", "x"}}}); }), HasSubstr("expected a number"));
  EXPECT_THAT(refusal([] { Schedule({.name = "step", .options = {{"milestones", "2,"}}}); }), HasSubstr("commas"));
  EXPECT_THAT(refusal([] { Schedule({.name = "auto", .options = {{"records", "1"}}}); }), HasSubstr("from 2 up"));
  EXPECT_THAT(refusal([] { Schedule({.name = "exponential", .options = {{"every", "0"}}}); }), HasSubstr("above 0"));
  EXPECT_THAT(refusal([] { Schedule({.rise = "steep"}); }), HasSubstr("linear or power"));
  EXPECT_THAT(refusal([] { Schedule({.scale = 0}); }), HasSubstr("above 0"));
}

TEST(Options, ReadWhatTheTableStates) {
  constexpr OptionInfo options[] = {{"lr", OptionInfo::Kind::number, "0.5", "", 0, 2},
                                    {"sizes", OptionInfo::Kind::sizes, "1,2", ""},
                                    {"on", OptionInfo::Kind::flag, "false", ""},
                                    {"word", OptionInfo::Kind::text, "", ""}};
  const ChoiceInfo choice{"thing", "", options};
  const Options plain(choice, {});
  EXPECT_EQ(plain.number("lr"), 0.5);
  EXPECT_THAT(plain.sizes("sizes"), ElementsAre(1, 2));
  EXPECT_FALSE(plain.flag("on"));
  const Options given(choice, {{"sizes", ""}, {"on", "true"}, {"word", "a b"}});
  EXPECT_TRUE(given.sizes("sizes").empty());
  EXPECT_TRUE(given.flag("on"));
  EXPECT_EQ(given.text("word"), "a b");
  EXPECT_THROW(given.number("on"), Error);
  EXPECT_THAT(refusal([&] { Options(choice, {{"on", "maybe"}}); }), HasSubstr("true or false"));
  for (const char* bad : {"nan", "inf", "-1", "2", "0.5x", ""})
    EXPECT_THAT(refusal([&] { Options(choice, {{"lr", bad}}); }), HasSubstr("a number from 0 up, below 2")) << bad;
}

TEST(Options, AreReadFromOneLine) {
  EXPECT_EQ(Options::parse(" gamma=0.5  milestones=1,2 "), (Options::Given{{"gamma", "0.5"}, {"milestones", "1,2"}}));
  EXPECT_TRUE(Options::parse("").empty());
  EXPECT_THAT(refusal([] { Options::parse("a=1 b"); }), AllOf(HasSubstr("'b'"), HasSubstr("key=value")));
  EXPECT_THAT(refusal([] { Options::parse("a=1 a=2"); }), HasSubstr("twice"));
}

// The tables' own values are of their kinds.
TEST(Options, StandardValuesAreValid) {
  for (const ChoiceInfo& choice : schedule_table()) {
    Options::Given all;
    for (const OptionInfo& option : choice.options) all.emplace(option.key, option.value);
    Options(choice, all);
    EXPECT_NO_THROW(Schedule({.name = std::string(choice.name)})) << choice.name;
  }
}

}  // namespace
}  // namespace tutti::engine
