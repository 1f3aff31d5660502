// Conversions between placements of tensors, with uneven parts, their gradients, and the adjoint of each conversion.
#include "nn/parallel/placement.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "tests/nn/parallel_ranks.hpp"
#include "tests/support/refusal.hpp"

namespace tutti::nn {
namespace {

using ::testing::HasSubstr;
using tutti::testing::refusal;

/// Returns `whole` in this placement. For Partial, the ranks' terms add up to `whole`.
Placed placed(const at::Tensor& whole, const Placement& placement, const Group& group, const std::optional<Cut>& cut) {
  if (placement.kind == Placement::Kind::replicate) return replicated(whole.clone(), group);
  if (placement.kind == Placement::Kind::shard) {
    const Interval mine = (*cut)[group->rank()];
    return shards(whole.narrow(placement.dim, mine.begin, mine.size()).clone(), placement.dim, group);
  }
  const at::Tensor other = wave(whole.sizes(), 50 + group->rank());
  const at::Tensor rest = group->allreduce(other) - other;  // the sum of the other ranks' terms
  const at::Tensor term = group->rank() > 0 ? other : whole - rest;
  return partial(placement.op.op == Op::avg ? term * group->size() : term, group, placement.op);
}

at::Tensor whole_of(const Placed& tensor) { return redistribute(tensor, Replicate()).local; }

TEST(Redistribute, GoesFromEveryPlacementToEveryOther) {
  const at::Tensor whole = wave({7, 5, 3}, 1);
  for (const int p : {1, 2, 3, 4})
    run_inproc(p, [&](Communicator& world) {
      const Group group = group_of(world);
      std::vector<std::int64_t> sizes(static_cast<std::size_t>(p), 0);
      sizes.back() = 7;  // the last rank has all, the others have nothing
      const std::vector<std::pair<Placement, std::optional<Cut>>> all{
          {Replicate(), {}},           {Partial(), {}},
          {Shard(0), Cut::even(7, p)}, {Shard(0), Cut::of_sizes(sizes)},
          {Shard(1), Cut::even(5, p)}, {Shard(2), Cut::even(3, p)}};
      for (const auto& [from, cut] : all)
        for (const auto& [to, new_cut] : all) {
          const Placed there = redistribute(placed(whole, from, group, cut), to, new_cut);
          expect_near(whole_of(there), whole);
          EXPECT_EQ(there.sizes(), whole.sizes().vec());
          if (to.kind == Placement::Kind::shard) {
            const Interval mine = (*new_cut)[world.rank()];
            expect_near(there.local, whole.narrow(to.dim, mine.begin, mine.size()));
            EXPECT_TRUE(there.local.is_contiguous());
          }
        }
    });
}

TEST(Redistribute, UsesTheCollectiveThatItsNameSays) {
  run_inproc(3, [](Communicator& world) {
    const Group group = group_of(world);
    const at::Tensor whole = wave({6, 9}, 1);
    const Cut rows = Cut::even(6, 3), columns = Cut::even(9, 3);
    const auto traffic = [&](const Placement& from, const Placement& to, Kind kind) {
      const Placed here = placed(whole, from, group, from.dim == 0 ? rows : columns);
      group->reset_traffic();
      redistribute(here, to);
      EXPECT_EQ(group->traffic(), group->traffic(kind));
      return group->traffic();
    };
    EXPECT_EQ(traffic(Shard(0), Replicate(), Kind::allgather), (Traffic{1, 2 * 9 * 8}));
    EXPECT_EQ(traffic(Partial(), Replicate(), Kind::allreduce), (Traffic{1, 54 * 8}));
    EXPECT_EQ(traffic(Partial(), Shard(1), Kind::reduce_scatter), (Traffic{1, 54 * 8}));
    EXPECT_EQ(traffic(Shard(0), Shard(1), Kind::alltoall), (Traffic{1, 2 * 9 * 8}));
    EXPECT_EQ(traffic(Replicate(), Shard(0), Kind::allgather), Traffic{});
    EXPECT_EQ(traffic(Replicate(), Partial(), Kind::allgather), Traffic{});
  });
}

// The loss is a function of the whole tensor, so its gradient does not depend on the conversions.
TEST(Redistribute, GradientsGoTheWayBack) {
  const at::Tensor whole = wave({7, 5}, 1), weights = wave({7, 5}, 2);
  run_inproc(3, [&](Communicator& world) {
    const Group group = group_of(world);
    const std::vector<std::pair<Placement, std::optional<Cut>>> all{{Replicate(), {}},
                                                                    {Partial(), {}},
                                                                    {Partial(avg), {}},
                                                                    {Shard(0), Cut::even(7, 3)},
                                                                    {Shard(1), Cut::even(5, 3)}};
    for (const auto& [from, cut] : all)
      for (const auto& [to, new_cut] : all) {
        Placed here = placed(whole, from, group, cut);
        here.local.requires_grad_();
        const at::Tensor end = whole_of(redistribute(here, to, new_cut));
        (end * weights).sum().backward();
        at::Tensor wanted = weights;
        if (from.kind == Placement::Kind::shard)
          wanted = weights.narrow(from.dim, (*cut)[world.rank()].begin, (*cut)[world.rank()].size());
        if (from.kind == Placement::Kind::partial && from.op.op == Op::avg) wanted = weights / 3;
        SCOPED_TRACE(from.text() + " to " + to.text());
        expect_near(here.local.grad(), wanted);
      }
    const Placed highest = redistribute(partial(wave({2}, world.rank()).requires_grad_(), group, max), Replicate());
    EXPECT_THAT(refusal([&] { highest.local.sum().backward(); }, Code::unsupported), HasSubstr("Partial(max)"));
    EXPECT_THAT(refusal([&] {
                  redistribute(replicated(whole, group), Shard(0), Cut({0, 4, 7}));
                }),
                HasSubstr("2 parts of 7"));
  });
}

/// Returns <a, b>: the sum over ranks, or one rank's value if all ranks have the same tensors.
double dot(const at::Tensor& a, const at::Tensor& b, bool is_replica, const Group& group) {
  const at::Tensor here = (a * b).sum().detach();
  return (is_replica ? here : group->allreduce(here)).item<double>();
}

// <A x, y> = <x, A' y>, for each function A and its conjugate A'.
TEST(ConjugateFunctions, AreAdjoint) {
  run_inproc(4, [](Communicator& world) {
    const Group group = group_of(world);
    const Cut rows = Cut::even(7, 4), columns = Cut::even(5, 4);
    const Interval mine = rows[world.rank()], wide = columns[world.rank()];
    const at::Tensor same = wave({7, 5}, 1), own = wave({7, 5}, 2 + world.rank());
    const auto check = [&](const char* name, const at::Tensor& x, bool x_is_replica, const at::Tensor& y,
                           bool y_is_replica, const std::function<at::Tensor(const at::Tensor&)>& apply) {
      const at::Tensor in = x.clone().requires_grad_(), out = apply(in);
      out.backward(y);
      EXPECT_NEAR(dot(out, y, y_is_replica, group), dot(in, in.grad(), x_is_replica, group), 1e-12) << name;
    };
    const at::Tensor part = own.narrow(0, mine.begin, mine.size()).contiguous();
    const at::Tensor other = wave(part.sizes(), 9 + world.rank());
    check("copy_to", same, true, own, false, [&](const at::Tensor& x) { return copy_to(x, group); });
    check("reduce_from", own, false, same, true, [&](const at::Tensor& x) { return reduce_from(x, group); });
    check("scatter_to", same, true, part, false, [&](const at::Tensor& x) { return scatter_to(x, 0, rows, group); });
    check("gather_from", part, false, same, true, [&](const at::Tensor& x) { return gather_from(x, 0, rows, group); });
    check("gather_sequence", part, false, own, false,
          [&](const at::Tensor& x) { return gather_sequence(x, 0, rows, group); });
    check("scatter_sequence", own, false, part, false,
          [&](const at::Tensor& x) { return scatter_sequence(x, 0, rows, group); });
    check("exchange_dims", part, false, wave({7, wide.size()}, 20 + world.rank()), false,
          [&](const at::Tensor& x) { return exchange_dims(x, 0, rows, 1, columns, group); });
  });
}

TEST(ConjugateFunctions, AreTwiceDifferentiable) {
  run_inproc(3, [](Communicator& world) {
    const Group group = group_of(world);
    const at::Tensor x = wave({4}, 1).requires_grad_();
    // Each rank's term is (rank + 1) x^3 / 6, so the sum over ranks is x^3.
    const at::Tensor y = reduce_from(copy_to(x, group).pow(3) * ((world.rank() + 1) / 6.0), group);
    const at::Tensor first = torch::autograd::grad({y.sum()}, {x}, {}, true, true)[0];
    expect_near(first, 3 * x.detach().pow(2));
    const at::Tensor second = torch::autograd::grad({first.sum()}, {x})[0];
    expect_near(second, 6 * x.detach());
  });
}

}  // namespace
}  // namespace tutti::nn
