#include "nn/parallel/placement.hpp"

#include <ATen/Functions.h>
#include <c10/core/WrapDimMinimal.h>
#include <torch/csrc/autograd/custom_function.h>

#include <utility>

namespace tutti::nn {
namespace {

using How = Placement::Kind;

/// A placement, and the cut if it is a shard.
struct Spot {
  Placement placement;
  Cut cut{{0, 0}};
};
bool is_same(const Spot& a, const Spot& b) {
  if (a.placement.kind != b.placement.kind) return false;
  if (a.placement.kind == How::shard) return a.placement.dim == b.placement.dim && a.cut == b.cut;
  return a.placement.kind == How::replicate || a.placement.op.op == b.placement.op.op;
}

at::Tensor own_part(const at::Tensor& values, const Spot& spot, int rank) {
  const Interval mine = spot.cut[rank];
  return values.narrow(spot.placement.dim, mine.begin, mine.size()).clone(at::MemoryFormat::Contiguous);
}

/// A local tensor whose reduction by `op` over the ranks is `values`.
at::Tensor term_of(const at::Tensor& values, Op op, int rank) {
  if (op == Op::sum || op == Op::prod) return rank == 0 ? values : at::full_like(values, op == Op::sum ? 0 : 1);
  if (op == Op::avg || op == Op::min || op == Op::max || op == Op::band || op == Op::bor) return values;
  throw Error(Code::unsupported, "nothing becomes Partial(" + std::string(name(op)) + ")");
}

at::Tensor moved(const at::Tensor& values, const Spot& from, const Spot& to, ProcessGroup& group) {
  if (is_same(from, to)) return values;
  const How source = from.placement.kind, target = to.placement.kind;
  if (target == How::partial) return term_of(moved(values, from, Spot{}, group), to.placement.op.op, group.rank());
  if (source == How::replicate) return own_part(values, to, group.rank());
  if (source == How::partial) {
    if (target == How::replicate) return group.allreduce(values, from.placement.op);
    return group.reduce_scatter(values, to.placement.dim, to.cut, from.placement.op);
  }
  if (target == How::replicate) return group.allgather(values, from.placement.dim, from.cut);
  if (from.placement.dim != to.placement.dim)
    return group.alltoall(values, from.placement.dim, from.cut, to.placement.dim, to.cut);
  // Another cut of the same dimension: a box exchange.
  std::vector<Box> have, want;
  for (int part = 0; part < group.size(); ++part) have.push_back({from.cut[part]}), want.push_back({to.cut[part]});
  const BoxPlan plan = plan_boxes(have, want, group.rank());
  const at::Tensor last = values.movedim(from.placement.dim, -1).contiguous();
  return group.finish(plan, last, group.start(plan, last)).movedim(-1, from.placement.dim).contiguous();
}

/// The placements of a redistribution, and those of its gradient.
struct Route : torch::CustomClassHolder {
  Group group;
  Spot from, to, back_from, back_to;
  double forward_scale = 1, backward_scale = 1;
};

class Move : public torch::autograd::Function<Move> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& input,
                            const c10::intrusive_ptr<Route>& route) {
    context->saved_data["route"] = c10::IValue::make_capsule(route);
    at::Tensor output = moved(input, route->from, route->to, *route->group);
    if (route->forward_scale != 1) output = output.mul(route->forward_scale);
    return output;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const auto kept = context->saved_data["route"].toCapsule();
    const auto& route = static_cast<const Route&>(*kept);
    const auto refuse = [](const Spot& spot) {
      return spot.placement.kind == How::partial && spot.placement.op.op != Op::sum && spot.placement.op.op != Op::avg;
    };
    if (refuse(route.from) || refuse(route.to))
      throw Error(Code::unsupported, "redistribute from " + route.from.placement.text() + " to " +
                                         route.to.placement.text() + " has no gradient: detach() the tensor");
    auto back = c10::make_intrusive<Route>();
    back->group = route.group;
    back->from = route.back_from, back->to = route.back_to;
    back->back_from = route.from, back->back_to = route.to;
    back->forward_scale = route.backward_scale, back->backward_scale = route.forward_scale;
    return {Move::apply(gradients[0], back), at::Tensor()};
  }
};

at::Tensor move(const at::Tensor& input, const Group& group, Spot from, Spot to, Spot back_from, Spot back_to,
                double backward_scale = 1) {
  if (group->size() == 1) return input;
  auto route = c10::make_intrusive<Route>();
  route->group = group;
  route->from = std::move(from), route->to = std::move(to);
  route->back_from = std::move(back_from), route->back_to = std::move(back_to);
  route->backward_scale = backward_scale;
  return Move::apply(input, route);
}

Spot spot(const Placed& tensor) {
  if (tensor.placement.kind != How::shard) return {tensor.placement};
  return {Shard(c10::maybe_wrap_dim(tensor.placement.dim, tensor.local.dim())), tensor.cut.value()};
}
Spot shard(const at::Tensor& values, std::int64_t dim, const Cut& cut) {
  return {Shard(c10::maybe_wrap_dim(dim, values.dim())), cut};
}

/// The placement of the gradient: for Partial, replicated.
Spot gradient_of(const Spot& spot) { return spot.placement.kind == How::partial ? Spot{} : spot; }

}  // namespace

std::string Placement::text() const {
  if (kind == How::shard) return "Shard(" + std::to_string(dim) + ")";
  return kind == How::replicate ? "Replicate" : "Partial(" + std::string(tutti::name(op.op)) + ")";
}

std::vector<std::int64_t> Placed::sizes() const {
  std::vector<std::int64_t> whole = local.sizes().vec();
  if (placement.kind == How::shard)
    whole[static_cast<std::size_t>(c10::maybe_wrap_dim(placement.dim, local.dim()))] = cut->extent();
  return whole;
}

Placed replicated(at::Tensor whole, Group group) { return {std::move(whole), Replicate(), std::move(group)}; }

Placed shards(at::Tensor part, std::int64_t dim, Group group) {
  const at::Tensor mine = at::full({1}, part.size(dim), at::kLong);
  const at::Tensor all = group->allgather(mine, 0, Cut::even(group->size(), group->size()));
  const Cut cut = Cut::of_sizes({all.data_ptr<std::int64_t>(), static_cast<std::size_t>(all.numel())});
  return {std::move(part), Shard(dim), std::move(group), cut};
}

Placed partial(at::Tensor term, Group group, Reduction op) { return {std::move(term), Partial(op), std::move(group)}; }

Placed redistribute(const Placed& tensor, const Placement& to, std::optional<Cut> cut) {
  Placed result{tensor.local, to, tensor.group, std::nullopt};
  if (to.kind == How::shard) {
    result.placement.dim = c10::maybe_wrap_dim(to.dim, tensor.local.dim());
    const std::int64_t extent = tensor.sizes()[static_cast<std::size_t>(result.placement.dim)];
    result.cut = cut ? *cut : Cut::even(extent, tensor.group->size());
    if (result.cut->extent() != extent || result.cut->parts() != tensor.group->size())
      throw Error(Code::invalid,
                  "redistribute to " + to.text() + ": the cut has " + std::to_string(result.cut->parts()) +
                      " parts of " + std::to_string(result.cut->extent()) + ", but " + tensor.group->name() + " has " +
                      std::to_string(tensor.group->size()) + " ranks and the tensor " + std::to_string(extent));
  }
  const Spot from = spot(tensor), there = spot(result);
  if (is_same(from, there)) return result;
  // The derivative of a mean by one rank's term is 1 / size().
  double scale = 1;
  if (from.placement.kind == How::partial && from.placement.op.op == Op::avg) scale /= tensor.group->size();
  if (to.kind == How::partial && to.op.op == Op::avg) scale *= tensor.group->size();
  result.local = move(tensor.local, tensor.group, from, there, gradient_of(there), gradient_of(from), scale);
  return result;
}

at::Tensor copy_to(const at::Tensor& input, const Group& group) { return move(input, group, {}, {}, {Partial()}, {}); }
at::Tensor reduce_from(const at::Tensor& term, const Group& group) {
  return move(term, group, {Partial()}, {}, {}, {});
}

at::Tensor scatter_to(const at::Tensor& input, std::int64_t dim, const Cut& cut, const Group& group) {
  const Spot part = shard(input, dim, cut);
  return move(input, group, {}, part, part, {});
}
at::Tensor gather_from(const at::Tensor& part, std::int64_t dim, const Cut& cut, const Group& group) {
  const Spot mine = shard(part, dim, cut);
  return move(part, group, mine, {}, {}, mine);
}
at::Tensor gather_sequence(const at::Tensor& part, std::int64_t dim, const Cut& cut, const Group& group) {
  const Spot mine = shard(part, dim, cut);
  return move(part, group, mine, {}, {Partial()}, mine);
}
at::Tensor scatter_sequence(const at::Tensor& term, std::int64_t dim, const Cut& cut, const Group& group) {
  const Spot mine = shard(term, dim, cut);
  return move(term, group, {Partial()}, mine, mine, {});
}
at::Tensor exchange_dims(const at::Tensor& part, std::int64_t from, const Cut& cut, std::int64_t to, const Cut& new_cut,
                         const Group& group) {
  const Spot here = shard(part, from, cut), there = shard(part, to, new_cut);
  return move(part, group, here, there, there, here);
}

}  // namespace tutti::nn
