// Losses, targets, outputs and metrics: values of allowed combinations, and the errors for other combinations, which
// name an allowed one.
#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "engine/optimizers/losses.hpp"
#include "tests/support/refusal.hpp"

namespace tutti::engine {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using testing::refusal;

/// A kind of target, with the targets of four samples.
struct Kind {
  const char* name;
  Targets targets;
  at::Tensor samples;
};

std::vector<Kind> kinds() {
  return {{"two classes", {.classes = 2}, at::tensor({0, 1, 1, 0}, at::kLong)},
          {"three classes", {.classes = 3}, at::tensor({2, 1, 0, 2}, at::kLong)},
          {"one number", {.numbers = 1}, at::tensor({0.0F, 1.0F, 1.0F, 0.0F})},
          {"three numbers",
           {.numbers = 3},
           at::tensor({0.F, 1.F, 1.F, 0.F, 0.F, 0.F, 1.F, 1.F, 1.F, 0.F, 1.F, 0.F}).reshape({4, 3})}};
}

/// Network outputs for four samples, `outputs` for each sample.
at::Tensor scores(std::int64_t outputs) {
  return at::tensor({-2.0, 1.0, 0.5, 3.0, -1.0, 2.0, 0.25, -0.5, 1.5, -3.0, 0.75, -0.125}, at::kDouble)
      .narrow(0, 0, 4 * outputs)
      .reshape({4, outputs});
}

bool goes_together(const LossInfo& loss, const Targets& targets, std::size_t outputs) {
  if (targets.classes > 0)
    return loss.is_binary() ? targets.classes == 2 && outputs == 1 : loss.wants_classes() && outputs >= targets.classes;
  return !loss.wants_classes() && outputs == targets.numbers;
}

/// Applies the last layer that a network for this loss has.
at::Tensor ended(const LossInfo& loss, const at::Tensor& output) {
  if (loss.output == LossInfo::Output::log_probabilities) return at::log_softmax(output, 1);
  return loss.output == LossInfo::Output::probabilities ? at::sigmoid(output) : output;
}

TEST(Losses, EveryCombinationIsRightOrRefusedWithWhatWouldBe) {
  for (const LossInfo& loss : loss_table())
    for (const Kind& kind : kinds())
      for (std::int64_t outputs = 1; outputs <= 3; ++outputs) {
        SCOPED_TRACE(std::string(loss.name) + ", " + kind.name + ", " + std::to_string(outputs) + " outputs");
        const at::Tensor output = ended(loss, scores(outputs));
        const auto check = [&] {
          check_targets(loss.name, kind.targets);
          check_output(loss.name, kind.targets, output, "net.pt", false);
        };
        if (!goes_together(loss, kind.targets, static_cast<std::size_t>(outputs))) {
          EXPECT_THAT(refusal(check), AnyOf(HasSubstr(": say "), HasSubstr(": give it ")));
          continue;
        }
        ASSERT_NO_THROW(check());
        EXPECT_TRUE(std::isfinite(make_loss(loss.name)(output, kind.samples).item<double>()));
        for (const Metric& metric : metrics_of(loss, kind.targets)) {
          const double value = metric.mean ? metric.mean(output, kind.samples) : 0;
          EXPECT_TRUE(std::isfinite(value)) << metric.name;
        }
      }
}

TEST(Losses, ModelsOfTheTableEndInScores) {
  for (const char* loss : {"nll", "negative_log_likelihood"})
    EXPECT_THAT(refusal([&] { check_output(loss, {.classes = 2}, scores(2), "mlp", true); }),
                AllOf(HasSubstr("loss=" + std::string(loss)), HasSubstr("say loss=cross_entropy")));
  for (const char* loss : {"bce", "binary_crossentropy"})
    EXPECT_THAT(refusal([&] { check_output(loss, {.classes = 2}, at::sigmoid(scores(1)), "mlp", true); }),
                AllOf(HasSubstr("loss=" + std::string(loss)), HasSubstr("say loss=bce_logits")));
}

TEST(Losses, WhatANetworkFromAFileEndsInIsLookedAt) {
  const Targets three{.classes = 3};
  EXPECT_THAT(refusal([&] { check_output("nll", three, scores(3), "net.pt", false); }),
              HasSubstr("say loss=cross_entropy"));
  EXPECT_THAT(refusal([&] { check_output("cross_entropy", three, at::softmax(scores(3), 1), "net.pt", false); }),
              HasSubstr("leave its last softmax out"));
  EXPECT_THAT(refusal([&] { check_output("bce", {.classes = 2}, scores(1), "net.pt", false); }),
              HasSubstr("say loss=bce_logits"));
  EXPECT_NO_THROW(check_output("cross_entropy", three, at::log_softmax(scores(3), 1), "net.pt", false));
}

double of(const std::vector<Metric>& metrics, std::string_view name, const at::Tensor& output,
          const at::Tensor& target) {
  for (const Metric& each : metrics)
    if (each.name == name) return each.mean(output, target);
  ADD_FAILURE() << "there is no metric " << name;
  return 0;
}

TEST(Losses, AccuracyGoesByTheSignOfOneScore) {
  const at::Tensor output = at::tensor({-2.0, 3.0, 0.5, 1.0}).reshape({4, 1});
  const at::Tensor target = at::tensor({0, 1, 1, 0}, at::kLong);
  EXPECT_EQ(of(metrics_of(loss_info("bce_logits"), {.classes = 2}), "accuracy", output, target), 0.75);
  EXPECT_EQ(of(metrics_of(loss_info("bce"), {.classes = 2}), "accuracy", at::sigmoid(output), target), 0.75);
}

TEST(Losses, AccuracyOfSeveralLabelsIsOverAllOfThem) {
  const at::Tensor output = at::tensor({-2.0, 3.0, 0.5, 1.0, 1.0, -1.0}).reshape({2, 3});
  const at::Tensor target = at::tensor({0.0, 1.0, 0.0, 1.0, 1.0, 1.0}).reshape({2, 3});
  const std::vector<Metric> metrics = metrics_of(loss_info("bce_logits"), {.numbers = 3});
  EXPECT_EQ(metrics.size(), 1U);
  EXPECT_NEAR(of(metrics, "accuracy", output, target), 4.0 / 6, 1e-15);
}

TEST(Losses, OfTwoClassesAreOfNumbersFromZeroToOne) {
  check_numbers("bce_logits", at::tensor({0.0, 0.25, 1.0}));
  check_numbers("mse", at::tensor({-1.0, 5.0}));
  for (const double wrong : {-0.1, 1.5})
    EXPECT_THAT(refusal([&] {
                  check_numbers("bce_logits", at::tensor({0.5, wrong}));
                }),
                HasSubstr("loss=bce_logits is for targets from 0 to 1, and the data has others: say loss=mse"));
}

TEST(Losses, OutputsFollowLossAndTargets) {
  EXPECT_EQ(outputs_for(loss_info("cross_entropy"), {.classes = 2}), 2U);
  EXPECT_EQ(outputs_for(loss_info("bce_logits"), {.classes = 2}), 1U);
  EXPECT_EQ(outputs_for(loss_info("mse"), {.numbers = 4}), 4U);
}

// Outputs 0.5 and 0.3 of class 1 against 0.1, 0.3 and 0.4 of class 0: of six pairs, four are in order and one is equal.
TEST(AreaUnderCurve, CountsPairs) {
  const std::vector<double> outputs{0.5, 0.1, 0.3, 0.3, 0.4}, targets{1, 0, 1, 0, 0};
  EXPECT_NEAR(area_under_curve(outputs, targets), 4.5 / 6, 1e-15);
  EXPECT_EQ(area_under_curve(std::vector<double>{1, 2, 3}, std::vector<double>{0, 0, 1}), 1);
  EXPECT_EQ(area_under_curve(std::vector<double>{1, 1, 1}, std::vector<double>{0, 0, 1}), 0.5);
  EXPECT_TRUE(std::isnan(area_under_curve(std::vector<double>{1, 2}, std::vector<double>{1, 1})));
  EXPECT_TRUE(std::isnan(area_under_curve(std::vector<double>{NAN, 2}, std::vector<double>{0, 1})));
}

// Scores 1 and 0, and class 0 is right: by hand, the loss is log(1 + e^-1) for class 0 and log(1 + e) for class 1.
TEST(Losses, SmoothingGoesToAllClassesAlike) {
  const at::Tensor output = at::tensor({1.0, 0.0}).reshape({1, 2}), target = at::tensor({0}, at::kLong);
  const double right = std::log1p(std::exp(-1.0)), wrong = std::log1p(std::exp(1.0));
  EXPECT_NEAR(make_loss("cross_entropy", 0.2)(output, target).item<double>(), 0.9 * right + 0.1 * wrong, 1e-6);
  EXPECT_THAT(refusal([] { make_loss("mse", 0.1); }), HasSubstr("label_smoothing is for loss=cross_entropy"));
}

TEST(Monitor, TakesTheUsualSpellings) {
  const std::vector<Metric> metrics = metrics_of(loss_info("cross_entropy"), {.classes = 10});
  for (const char* name : {"loss", "val_loss", "held-out loss"}) EXPECT_EQ(monitored(name, metrics), std::nullopt);
  for (const char* name : {"accuracy", "val_acc", "val_accuracy"}) EXPECT_EQ(monitored(name, metrics), 0U);
  EXPECT_EQ(monitored("top_5_accuracy", metrics), 1U);
  EXPECT_THAT(refusal([&] { monitored("auc", metrics); }), HasSubstr("expected one of loss, accuracy, top-5 accuracy"));
}

}  // namespace
}  // namespace tutti::engine
