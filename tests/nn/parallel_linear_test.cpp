// Layers split over the tensor axis of a mesh, compared with whole layers on one rank. Ranks are threads.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/utils.h>

#include "collectives/plan/algorithm.hpp"
#include "nn/gradient_sync.hpp"
#include "nn/parallel/attention.hpp"
#include "nn/parallel/linear.hpp"
#include "nn/parallel/vocabulary.hpp"
#include "tests/nn/parallel_ranks.hpp"
#include "tests/support/refusal.hpp"

namespace tutti::nn {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using tutti::testing::refusal;

const std::vector<int> all_sizes{1, 2, 3, 4, 5, 6, 8};

/// A layer's output on one rank, and the gradients of its input and parameters.
struct Wanted {
  at::Tensor output, input, weight, bias;
};
Wanted linear_in_one_place(const at::Tensor& x, const at::Tensor& w, const at::Tensor& b, const at::Tensor& dy) {
  const at::Tensor in = x.clone().requires_grad_(), weight = w.clone().requires_grad_(),
                   bias = b.clone().requires_grad_();
  const at::Tensor y = at::linear(in, weight, bias);
  y.backward(dy);
  return {y.detach(), in.grad(), weight.grad(), bias.grad()};
}

TEST(RowParallelLinear, EqualsTheSequentialLayer) {
  const at::Tensor x = wave({5, 12}, 1), w = wave({7, 12}, 2), b = wave({7}, 3), dy = wave({5, 7}, 4);
  const Wanted wanted = linear_in_one_place(x, w, b, dy);
  for (const int p : {1, 2, 4, 5})
    for (const bool in_parts : {false, true})
      run_inproc(p, [&](Communicator& world) {
        const Group group = group_of(world);
        RowParallelLinear layer(12, 7, group);
        layer->to(at::kDouble);
        layer->load("weight", w);
        layer->load("bias", b);
        const Interval mine = layer->cut()[world.rank()];
        const at::Tensor in =
            (in_parts ? x.narrow(1, mine.begin, mine.size()).contiguous() : x.clone()).requires_grad_();
        const at::Tensor y = layer->forward(in);
        y.backward(dy);
        expect_near(y, wanted.output);
        expect_near(in.grad(), in_parts ? wanted.input.narrow(1, mine.begin, mine.size()) : wanted.input);
        expect_near(layer->whole_gradient("weight"), wanted.weight);
        expect_near(layer->bias.grad(), wanted.bias);  // the bias is added by one rank only
        EXPECT_EQ(layer->weight.numel(), 7 * mine.size());
      });
}

TEST(ColumnParallelLinear, EqualsTheSequentialLayer) {
  const at::Tensor x = wave({5, 6}, 1), w = wave({11, 6}, 2), b = wave({11}, 3), dy = wave({5, 11}, 4);
  const Wanted wanted = linear_in_one_place(x, w, b, dy);
  for (const int p : {1, 2, 3, 4})
    for (const bool gathered : {false, true})
      run_inproc(p, [&](Communicator& world) {
        ColumnParallelLinear layer(6, 11, group_of(world), ParallelLinearOptions{.gather_output = gathered});
        layer->to(at::kDouble);
        layer->load("weight", w);
        layer->load("bias", b);
        const Interval mine = layer->cut()[world.rank()];
        const at::Tensor in = x.clone().requires_grad_();
        const at::Tensor y = layer->forward(in);
        const auto part = [&](const at::Tensor& whole) { return whole.narrow(1, mine.begin, mine.size()); };
        y.backward(gathered ? dy : part(dy).contiguous());
        expect_near(y, gathered ? wanted.output : part(wanted.output));
        expect_near(in.grad(), wanted.input);
        expect_near(layer->whole_gradient("weight"), wanted.weight);
        expect_near(layer->whole_gradient("bias"), wanted.bias);
      });
}

/// A two-layer network. losses() trains it for 100 steps; `net` computes its output.
struct Mlp {
  at::Tensor x = wave({6, 10}, 1), target = wave({6, 4}, 2), w1 = wave({13, 10}, 3), b1 = wave({13}, 4),
             w2 = wave({4, 13}, 5), b2 = wave({4}, 6);

  template <class Net>
  std::vector<double> losses(const std::vector<at::Tensor>& parameters, const Net& net) const {
    std::vector<double> seen;
    for (int step = 0; step < 100; ++step) {
      for (const at::Tensor& each : parameters) each.mutable_grad().reset();
      const at::Tensor loss = (net(x) - target).pow(2).sum();
      loss.backward();
      const torch::NoGradGuard no_grad;
      for (at::Tensor each : parameters) each.sub_(each.grad(), 0.02);
      seen.push_back(loss.item<double>());
    }
    return seen;
  }
  std::vector<double> in_one_place() const {
    std::vector<at::Tensor> p;
    for (const at::Tensor& each : {w1, b1, w2, b2}) p.push_back(each.clone().requires_grad_());
    return losses(p, [&](const at::Tensor& in) { return at::linear(at::linear(in, p[0], p[1]).tanh(), p[2], p[3]); });
  }
};

void expect_losses(const std::vector<double>& got, const std::vector<double>& wanted, double tolerance) {
  for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(got[i], wanted[i], tolerance) << "step " << i;
}

TEST(ModelParallelMlp, HasTheSequentialTrajectory) {
  const Mlp mlp;
  const std::vector<double> wanted = mlp.in_one_place();
  EXPECT_LT(wanted.back(), wanted.front() / 4);
  for (const int p : all_sizes)
    run_inproc(p, [&](Communicator& world) {
      const Group group = group_of(world);
      ColumnParallelLinear low(10, 13, group);
      RowParallelLinear high(13, 4, group);
      low->to(at::kDouble), high->to(at::kDouble);
      low->load("weight", mlp.w1), low->load("bias", mlp.b1), high->load("weight", mlp.w2), high->load("bias", mlp.b2);
      expect_losses(mlp.losses({low->weight, low->bias, high->weight, high->bias},
                               [&](const at::Tensor& in) { return high->forward(low->forward(in).tanh()); }),
                    wanted, 1e-10);
    });
}

// TorchAD-NN's stack: every layer gets a whole input, and cuts it at its beginning.
TEST(TorchAdNames, TrainAsTheSequentialNetwork) {
  const Mlp mlp;
  const std::vector<double> wanted = mlp.in_one_place();
  for (const int p : {2, 4})
    run_inproc(p, [&](Communicator& world) {
      const Group group = group_of(world);
      RowParallelLinear low = MPInitialLinear(10, 13, group), high = MPBaseLinear(13, 4, group);
      low->to(at::kDouble), high->to(at::kDouble);
      low->load("weight", mlp.w1), low->load("bias", mlp.b1), high->load("weight", mlp.w2), high->load("bias", mlp.b2);
      expect_losses(mlp.losses({low->weight, low->bias, high->weight, high->bias},
                               [&](const at::Tensor& in) {
                                 const at::Tensor flat = MPInitialReshape(in.view({6, 2, 5}), {10});
                                 return high->forward(MPBaseReshape(MPTanh(low->forward(flat)), {13}));
                               }),
                    wanted, 1e-10);
    });
}

TEST(Vecpar, CutsFeaturesUnevenly) {
  const Mlp mlp;
  const std::vector<double> wanted = mlp.in_one_place();
  for (int p = 1; p <= 5; ++p)
    run_inproc(p, [&](Communicator& world) {
      const Group group = group_of(world);
      RowParallelLinear low = LayerDist(10, 13, group), high = LayerDist(13, 4, group);
      if (p == 4) {
        EXPECT_EQ(low->cut(), Cut({0, 3, 6, 8, 10}));
      }
      low->to(at::kDouble), high->to(at::kDouble);
      low->load("weight", mlp.w1), low->load("bias", mlp.b1), high->load("weight", mlp.w2), high->load("bias", mlp.b2);
      expect_losses(mlp.losses({low->weight, low->bias, high->weight, high->bias},
                               [&](const at::Tensor& in) { return high->forward(low->forward(in).tanh()); }),
                    wanted, 1e-5);
      EXPECT_FALSE(LayerWithNoBiasDist(10, 4, group)->bias.defined());
    });
}

TEST(ParallelInitialisation, DoesNotDependOnTheRanks) {
  torch::manual_seed(7);
  const torch::nn::Linear sequential(10, 13);
  for (const int p : {1, 2, 4, 5})
    run_inproc(p, [&](Communicator& world) {
      const Group group = group_of(world);
      const ParallelLinearOptions seeded{.seed = 7};
      ColumnParallelLinear column(10, 13, group, seeded);
      RowParallelLinear row(10, 13, group, seeded);
      EXPECT_TRUE(column->whole("weight").equal(sequential->weight));
      EXPECT_TRUE(column->whole("bias").equal(sequential->bias));
      EXPECT_TRUE(row->whole("weight").equal(sequential->weight));
      EXPECT_TRUE(row->bias.equal(sequential->bias));
      ColumnParallelLinear unseeded(10, 13, group);  // the weights are drawn from rank 0's seed
      const at::Tensor whole = unseeded->whole("weight");
      EXPECT_TRUE(group->broadcast(whole).equal(whole));
    });
}

TEST(ColumnRowPair, SendsOneAllreduceEachWay) {
  for (const int p : {2, 4})
    run_inproc(p, [&](Communicator& world) {
      const Group group = group_of(world);
      ColumnParallelLinear low(16, 64, group);
      RowParallelLinear high(64, 8, group);
      low->to(at::kDouble), high->to(at::kDouble);
      group->reset_traffic();
      const at::Tensor x = wave({5, 16}, 1).requires_grad_(), y = high->forward(at::gelu(low->forward(x)));
      EXPECT_EQ(group->traffic(), (Traffic{1, 5 * 8 * 8}));  // batch x outputs x 8 bytes
      EXPECT_EQ(group->traffic(Kind::allreduce), group->traffic());
      y.sum().backward();
      EXPECT_EQ(group->traffic(), (Traffic{2, 5 * 8 * 8 + 5 * 16 * 8}));
      EXPECT_EQ(group->traffic(Kind::allreduce), group->traffic());
      EXPECT_EQ(low->weight.numel() * p, 16 * 64);
      EXPECT_EQ(high->weight.numel() * p, 64 * 8);
    });
}

TEST(RootFreeLayer, NoRankSendsMoreThanTheOthers) {
  run_inproc(4, [](Communicator& world) {
    Collective call;
    call.kind = Kind::allreduce;
    call.in = ConstBuffer(nullptr, 4096, DType::f64);
    call.out = Buffer(nullptr, 4096, DType::f64);
    const std::string choice = world.explain(call);
    const std::string name = choice.substr(choice.find('/') + 1, choice.find(':') - choice.find('/') - 1);
    const Algorithm* algorithm = find_algorithm(Kind::allreduce, name);
    ASSERT_NE(algorithm, nullptr) << choice;
    double most = 0, all = 0;
    for (int rank = 0; rank < 4; ++rank) {
      const auto sent = static_cast<double>(tally(algorithm->plan({.rank = rank, .size = 4, .count = 4096})).elements);
      most = std::max(most, sent), all += sent;
    }
    EXPECT_LE(most, 1.1 * all / 4) << name;
  });
}

TEST(AnyActivation, AgreesWithFiniteDifferences) {
  run_inproc(3, [](Communicator& world) {
    const Group group = group_of(world);
    ColumnParallelLinear low(4, 7, group);
    RowParallelLinear high(7, 3, group);
    low->to(at::kDouble), high->to(at::kDouble);
    const at::Tensor w1 = wave({7, 4}, 3), w2 = wave({3, 7}, 4), x = wave({5, 4}, 5);
    low->load("weight", w1), low->load("bias", wave({7}, 1)), high->load("weight", w2),
        high->load("bias", wave({3}, 2));
    for (const bool is_relu : {true, false}) {
      const auto loss = [&] {
        const at::Tensor hidden = low->forward(x);
        return high->forward(is_relu ? hidden.relu() : at::gelu(hidden)).pow(2).sum();
      };
      low->zero_grad(), high->zero_grad();
      loss().backward();
      const auto check = [&](ParallelModule& layer, const at::Tensor& whole) {
        const at::Tensor gradient = layer.whole_gradient("weight");
        for (std::int64_t i = 0; i < whole.numel(); ++i) {
          const auto at = [&](double step) {
            at::Tensor moved = whole.clone();
            moved.view({-1})[i] += step;
            layer.load("weight", moved);
            return loss().item<double>();
          };
          const double slope = (at(1e-5) - at(-1e-5)) / 2e-5;
          layer.load("weight", whole);
          EXPECT_NEAR(gradient.view({-1})[i].item<double>(), slope, 1e-7) << i;
        }
      };
      check(*low, w1);
      check(*high, w2);
    }
  });
}

/// Two replicas of a network whose convolution is whole on every rank and whose head is split.
TEST(SelectedLayers, MixWithDataParallelism) {
  const at::Tensor x = wave({8, 2, 4, 4}, 1), k = wave({3, 2, 3, 3}, 2), w1 = wave({5, 12}, 3), w2 = wave({2, 5}, 4);
  const at::Tensor kernel = k.clone().requires_grad_(), a = w1.clone().requires_grad_(),
                   b = w2.clone().requires_grad_();
  at::linear(at::linear(at::conv2d(x, kernel).relu().flatten(1), a).tanh(), b).pow(2).sum(1).mean().backward();
  run_inproc(4, [&](Communicator& world) {
    const Mesh mesh(world, {{"data", 2}, {"tensor", 2}});
    const Group tensor = group_of(mesh, "tensor");
    torch::nn::Conv2d conv(torch::nn::Conv2dOptions(2, 3, 3).bias(false));
    ColumnParallelLinear low(12, 5, tensor, ParallelLinearOptions{.bias = false});
    RowParallelLinear high(5, 2, tensor, ParallelLinearOptions{.bias = false});
    torch::nn::Sequential net(conv, low, high);
    net->to(at::kDouble);
    {
      const torch::NoGradGuard no_grad;
      conv->weight.copy_(k);
    }
    low->load("weight", w1), high->load("weight", w2);
    GradientSync sync(*net, mesh["data"]);
    const at::Tensor mine = x.narrow(0, 4 * mesh.rank("data"), 4);
    high->forward(low->forward(conv->forward(mine).relu().flatten(1)).tanh()).pow(2).sum(1).mean().backward();
    sync.finish();
    expect_near(conv->weight.grad(), kernel.grad());
    expect_near(low->whole_gradient("weight"), a.grad());
    expect_near(high->whole_gradient("weight"), b.grad());
    EXPECT_EQ(parameter_parts(*net).size(), 2U);
    EXPECT_EQ(parameter_parts(*net)[1].name, "2.weight");
  });
}

TEST(SequenceParallel, KeepsWhatLiesBetweenInParts) {
  const std::int64_t positions = 7;
  const at::Tensor x = wave({positions, 2, 6}, 1), w1 = wave({9, 6}, 2), b1 = wave({9}, 3), w2 = wave({6, 9}, 4),
                   b2 = wave({6}, 5), dy = wave({positions, 2, 6}, 6);
  const at::Tensor in = x.clone().requires_grad_(), u = w1.clone().requires_grad_(), c = b2.clone().requires_grad_();
  const at::Tensor wanted = at::linear(at::gelu(at::linear(in, u, b1)), w2, c);
  wanted.backward(dy);
  for (const int p : {1, 2, 3})
    run_inproc(p, [&](Communicator& world) {
      const Group group = group_of(world);
      const ParallelLinearOptions options{.sequence_parallel = true};
      ColumnParallelLinear low(6, 9, group, options);
      RowParallelLinear high(9, 6, group, options);
      low->to(at::kDouble), high->to(at::kDouble);
      low->load("weight", w1), low->load("bias", b1), high->load("weight", w2), high->load("bias", b2);
      const Interval mine = Cut::even(positions, p)[world.rank()];
      const auto part = [&](const at::Tensor& whole) { return whole.narrow(0, mine.begin, mine.size()).contiguous(); };
      const at::Tensor here = part(x).requires_grad_();
      group->reset_traffic();
      const at::Tensor y = high->forward(at::gelu(low->forward(here, positions)), positions);
      expect_near(y, part(wanted.detach()));
      EXPECT_EQ(group->traffic(Kind::allgather).calls, p == 1 ? 0U : 1U);
      EXPECT_EQ(group->traffic(Kind::reduce_scatter).calls, p == 1 ? 0U : 1U);
      y.backward(part(dy));
      expect_near(here.grad(), part(in.grad()));
      expect_near(low->whole_gradient("weight"), u.grad());
      expect_near(high->bias.grad(), c.grad());
      EXPECT_THAT(refusal([&] { low->forward(here, 100); }), AllOf(HasSubstr("'linear'"), HasSubstr("whole length")));
    });
}

TEST(NarrowLayers, AreRefusedWithLayerWidthAndMesh) {
  run_inproc(4, [](Communicator& world) {
    const Mesh mesh(world, {{"tensor", 4}});
    const Group group = group_of(mesh, "tp");
    EXPECT_THAT(refusal([&] { ColumnParallelLinear(8, 3, group, ParallelLinearOptions{.name = "head"}); }),
                AllOf(HasSubstr("'head': 3 outputs"), HasSubstr("4 ranks"), HasSubstr("mesh tensor 4")));
    EXPECT_THAT(refusal([&] { RowParallelLinear(2, 3, group); }), HasSubstr("2 inputs"));
    EXPECT_THAT(refusal([&] { ParallelAttention(12, 3, group); }),
                AllOf(HasSubstr("3 heads"), HasSubstr("'attention'")));
    EXPECT_THAT(refusal([&] { VocabParallelEmbedding(3, 3, group); }), HasSubstr("a vocabulary of 3"));
    RowParallelLinear row(8, 2, group);
    EXPECT_THAT(refusal([&] { row->forward(at::ones({2, 5})); }), HasSubstr("width 2 in parts or 8 whole, not 5"));
    EXPECT_THAT(refusal([&] { row->load("weight", at::ones({2, 2})); }), HasSubstr("[2, 8] in all"));
  });
}

}  // namespace
}  // namespace tutti::nn
