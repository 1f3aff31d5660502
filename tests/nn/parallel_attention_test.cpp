// Vocabularies and attention split over the tensor axis of a mesh, compared with one rank. Ranks are threads.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "nn/parallel/attention.hpp"
#include "nn/parallel/ring_attention.hpp"
#include "nn/parallel/vocabulary.hpp"
#include "tests/nn/parallel_ranks.hpp"

namespace tutti::nn {
namespace {

TEST(VocabParallel, EmbeddingAndCrossEntropyEqualTheSequentialOnes) {
  const at::Tensor table = wave({11, 4}, 1), tokens = at::arange(10).mul(7).remainder(11).view({2, 5}),
                   dy = wave({2, 5, 4}, 2);
  const at::Tensor rows = table.clone().requires_grad_();
  at::embedding(rows, tokens).backward(dy);
  const at::Tensor logits = wave({6, 11}, 3).mul(9), targets = at::tensor({0, 10, 5, -100, 3, 7}, at::kLong);
  const at::Tensor whole = logits.clone().requires_grad_();
  const at::Tensor wanted = at::cross_entropy_loss(whole, targets);
  wanted.backward();
  for (const int p : {1, 2, 3, 4})
    run_inproc(p, [&](Communicator& world) {
      const Group group = group_of(world);
      VocabParallelEmbedding layer(11, 4, group);
      layer->to(at::kDouble);
      layer->load("weight", table);
      const at::Tensor found = layer->forward(tokens);
      EXPECT_TRUE(found.equal(at::embedding(table, tokens)));
      found.backward(dy);
      expect_near(layer->whole_gradient("weight"), rows.grad());
      const Interval mine = layer->cut()[world.rank()];
      const at::Tensor part = logits.narrow(1, mine.begin, mine.size()).contiguous().requires_grad_();
      group->reset_traffic();
      const at::Tensor loss = vocab_parallel_cross_entropy(part, targets, layer->cut(), group);
      expect_near(loss, wanted.detach());
      loss.backward();
      expect_near(part.grad(), whole.grad().narrow(1, mine.begin, mine.size()));
      if (p > 1) {
        EXPECT_EQ(group->traffic(), (Traffic{2, 3 * 6 * 8}));
      }
    });
}

TEST(ParallelAttention, EqualsTheSequentialBlock) {
  const std::int64_t width = 20, heads = 5;
  const at::Tensor x = wave({2, 6, width}, 1), dy = wave({2, 6, width}, 2);
  std::vector<at::Tensor> w, b;
  for (int i = 0; i < 4; ++i)
    w.push_back(wave({width, width}, 3 + i).requires_grad_()), b.push_back(wave({width}, 9 + i));
  for (const bool causal : {false, true}) {
    const at::Tensor in = x.clone().requires_grad_();
    const auto split = [&](int i) {
      return at::linear(in, w[static_cast<std::size_t>(i)], b[static_cast<std::size_t>(i)])
          .view({2, 6, heads, 4})
          .transpose(1, 2);
    };
    const at::Tensor wanted =
        at::linear(attend(split(0), split(1), split(2), causal).transpose(1, 2).flatten(2), w[3], b[3]);
    for (at::Tensor& each : w) each.mutable_grad().reset();
    wanted.backward(dy);
    for (const int p : {1, 2, 3, 5})
      run_inproc(p, [&](Communicator& world) {
        const Group group = group_of(world);
        ParallelAttention block(width, heads, group, ParallelAttentionOptions{.causal = causal});
        block->to(at::kDouble);
        ParallelModule* const layers[] = {block->query.get(), block->key.get(), block->value.get(),
                                          block->output.get()};
        for (std::size_t i = 0; i < 4; ++i) layers[i]->load("weight", w[i]), layers[i]->load("bias", b[i]);
        group->reset_traffic();
        const at::Tensor here = x.clone().requires_grad_(), y = block->forward(here);
        expect_near(y, wanted.detach());
        y.backward(dy);
        expect_near(here.grad(), in.grad());
        for (std::size_t i = 0; i < 4; ++i) expect_near(layers[i]->whole_gradient("weight"), w[i].grad());
        if (p > 1) {
          EXPECT_EQ(group->traffic(Kind::allreduce), (Traffic{2, 2 * 2 * 6 * 20 * 8}));
        }
      });
  }
}

TEST(Ulysses, EqualsAttentionInOnePlace) {
  const std::vector<at::Tensor> whole{wave({2, 5, 7, 4}, 1), wave({2, 5, 7, 4}, 2), wave({2, 5, 7, 4}, 3)};
  const at::Tensor dy = wave({2, 5, 7, 4}, 4);
  std::vector<at::Tensor> in;
  for (const at::Tensor& each : whole) in.push_back(each.clone().requires_grad_());
  const at::Tensor wanted = attend(in[0], in[1], in[2], true);
  wanted.backward(dy);
  for (const int p : {1, 2, 3})
    run_inproc(p, [&](Communicator& world) {
      const Group group = group_of(world);
      const Cut positions = Cut::even(7, p);
      const auto part = [&](const at::Tensor& all) {
        return all.narrow(2, positions[world.rank()].begin, positions[world.rank()].size()).contiguous();
      };
      std::vector<at::Tensor> here;
      for (const at::Tensor& each : whole) here.push_back(part(each).requires_grad_());
      const at::Tensor y = attend_ulysses(here[0], here[1], here[2], true, positions, group);
      y.backward(part(dy));
      expect_near(y, part(wanted.detach()));
      for (std::size_t i = 0; i < 3; ++i) expect_near(here[i].grad(), part(in[i].grad()));
      EXPECT_EQ(group->traffic(Kind::alltoall).calls, p == 1 ? 0U : 8U);
    });
}

TEST(RingAttention, PartsOfKeysAreMergedByTheirWeights) {
  const auto of = [](double number) { return at::full({1, 1}, number, at::kDouble); };
  EXPECT_EQ(merge({of(1), of(0)}, {of(5), of(std::log(3))}).values.item<double>(), 4);  // 1/4 of 1 and 3/4 of 5
}

TEST(RingAttention, EqualsAttentionInOnePlace) {
  for (const bool causal : {true, false}) {
    const std::vector<at::Tensor> whole = {wave({2, 3, 7, 4}, 1), wave({2, 3, 7, 4}, 2), wave({2, 3, 7, 4}, 3)};
    const at::Tensor dy = wave({2, 3, 7, 4}, 4);
    std::vector<at::Tensor> in;
    for (const at::Tensor& each : whole) in.push_back(each.clone().requires_grad_());
    const at::Tensor wanted = attend(in[0], in[1], in[2], causal);
    wanted.backward(dy);
    for (const int p : {1, 2, 3, 4, 8})  // of 8 ranks, the last one has no position
      run_inproc(p, [&](Communicator& world) {
        const Group group = group_of(world);
        const Cut positions = Cut::even(7, p);
        const auto part = [&](const at::Tensor& all) {
          return all.narrow(2, positions[world.rank()].begin, positions[world.rank()].size()).contiguous();
        };
        std::vector<at::Tensor> here;
        for (const at::Tensor& each : whole) here.push_back(part(each).requires_grad_());
        const at::Tensor y = attend_ring(here[0], here[1], here[2], causal, positions, group);
        y.backward(part(dy));
        expect_near(y, part(wanted.detach()));
        for (std::size_t i = 0; i < 3; ++i) expect_near(here[i].grad(), part(in[i].grad()));
      });
  }
}

}  // namespace
}  // namespace tutti::nn
