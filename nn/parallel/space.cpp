#include "nn/parallel/space.hpp"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <string_view>
#include <utility>

namespace tutti::nn {
namespace {

/// The use of a plan: from box `have` to box `want`, or the adjoint. `part` takes a tile of a replicated image, and
/// `bring_together` is an allgather. Each of these two is the other's gradient, without a sum, because every rank has
/// the whole gradient of a replicated image.
enum class Way { forward, adjoint, part, bring_together };

struct Journey : torch::CustomClassHolder {
  BoxPlan plan;
  Group group;
  Way way = Way::forward;
};

class Travel : public torch::autograd::Function<Travel> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& input,
                            const c10::intrusive_ptr<Journey>& journey) {
    context->saved_data["journey"] = c10::IValue::make_capsule(journey);
    const BoxPlan& plan = journey->plan;
    ProcessGroup& group = *journey->group;
    switch (journey->way) {
      case Way::adjoint: return group.finish_adjoint(plan, input, group.start_adjoint(plan, input));
      case Way::part: return slice(input, plan.want, plan.have).clone(at::MemoryFormat::Contiguous);
      default: return group.finish(plan, input, group.start(plan, input));
    }
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const auto kept = context->saved_data["journey"].toCapsule();
    auto back = c10::make_intrusive<Journey>(static_cast<const Journey&>(*kept));
    constexpr std::array opposite = {Way::adjoint, Way::forward, Way::bring_together, Way::part};
    back->way = opposite[static_cast<std::size_t>(back->way)];
    return {Travel::apply(gradients[0], back), at::Tensor()};
  }
};

at::Tensor travel(const at::Tensor& input, BoxPlan plan, Group group, Way way) {
  if (group->size() == 1 && plan.have == plan.want) return input;
  auto journey = c10::make_intrusive<Journey>();
  journey->plan = std::move(plan), journey->group = std::move(group), journey->way = way;
  return Travel::apply(input, journey);
}

template <class Number>
std::string text_of(const std::vector<Number>& numbers) {
  return c10::str(c10::ArrayRef<Number>(numbers));  // "[2, 3]"
}

}  // namespace

Box reads_of(const Box& outputs, std::span<const Window> windows) {
  Box read;
  for (std::size_t d = 0; d < outputs.size(); ++d) read.push_back(windows[d].reads(outputs[d]));
  return read;
}

std::vector<std::int64_t> pads_around(const Box& inside, const Box& reads) {
  std::vector<std::int64_t> pads;
  for (std::size_t d = reads.size(); d-- > 0;) {
    const bool none = inside[d].empty();
    pads.push_back(none ? reads[d].size() : inside[d].begin - reads[d].begin);
    pads.push_back(none ? 0 : reads[d].end - inside[d].end);
  }
  return pads;
}

at::Tensor exchange(const at::Tensor& tile, const BoxPlan& plan, const Group& group) {
  return travel(tile, plan, group, Way::forward);
}

Space::Space(const Mesh& mesh, int dimensions) {
  constexpr std::array<std::string_view, 3> names = {"depth", "height", "width"};
  if (dimensions < 1 || dimensions > 3) throw Error(Code::invalid, "pictures have 1 to 3 dimensions");
  const auto axes = std::span(names).last(static_cast<std::size_t>(dimensions));
  for (const std::string_view axis : axes) grid_.push_back(mesh.size(axis));
  std::string there;
  std::vector<std::size_t> order;  // dimensions in the order of the mesh's axes
  for (const Mesh::Axis& axis : mesh.axes()) {
    const auto found = std::ranges::find(axes, std::string_view(axis.name));
    if (found == axes.end()) continue;
    order.push_back(static_cast<std::size_t>(found - axes.begin()));
    there += (there.empty() ? "" : ",") + axis.name;
  }
  group_ = std::make_shared<ProcessGroup>(mesh, there.empty() ? std::string(axes.back()) : there);
  for (int rank = 0; rank < group_->size(); ++rank) {
    std::vector<int> place(grid_.size(), 0);
    int rest = rank;
    for (std::size_t i = order.size(); i-- > 0;) {
      place[order[i]] = rest % grid_[order[i]];
      rest /= grid_[order[i]];
    }
    int part = 0;
    for (std::size_t d = 0; d < grid_.size(); ++d) part = part * grid_[d] + place[d];
    part_.push_back(part);
  }
}

Space::Space(Group group, std::vector<int> grid)
    : group_(std::move(group)), grid_(std::move(grid)), part_(static_cast<std::size_t>(group_->size())) {
  std::iota(part_.begin(), part_.end(), 0);
  if (std::accumulate(grid_.begin(), grid_.end(), 1, std::multiplies<>()) != group_->size())
    throw Error(Code::invalid, "a grid of " + text_of(grid_) + " needs as many ranks, but " + group_->name() + " has " +
                                   std::to_string(group_->size()));
}

std::vector<Box> Space::boxes(const Tiling& tiling) const {
  std::vector<Box> all;
  for (const int part : part_) all.push_back(tiling.box(part));
  return all;
}

Box Space::box(const Tiling& tiling) const { return tiling.box(part_[static_cast<std::size_t>(group_->rank())]); }

Tile Space::cut(const at::Tensor& whole, const Tiling& tiling) const {
  if (tiling.grid() != grid_ || whole.sizes().slice(2) != at::IntArrayRef(tiling.extents()))
    throw Error(Code::invalid, "pictures " + c10::str(whole.sizes()) + " cannot be cut as a grid of " +
                                   text_of(tiling.grid()) + " for positions " + text_of(tiling.extents()));
  const std::vector<Box> all(part_.size(), tiling.whole());
  return {travel(whole, plan_boxes(boxes(tiling), all, group_->rank()), group_, Way::part), tiling};
}

at::Tensor Space::whole(const Tile& tile) const {
  const std::vector<Box> all(part_.size(), tile.tiling.whole());
  return travel(tile.values, plan_boxes(boxes(tile.tiling), all, group_->rank()), group_, Way::bring_together);
}

Tile Space::recut(const Tile& tile, const Tiling& tiling) const {
  return {exchange(tile.values, plan_boxes(boxes(tile.tiling), boxes(tiling), group_->rank()), group_), tiling};
}

BoxPlan Space::plan(const Tiling& tiling, std::span<const Window> windows, const Tiling& outputs) const {
  std::vector<Box> want;
  for (const Box& box : boxes(outputs)) want.push_back(common(reads_of(box, windows), tiling.whole()));
  return plan_boxes(boxes(tiling), want, group_->rank());
}

at::Tensor Space::read_inside(const Tile& tile, std::span<const Window> windows, const Tiling& outputs) const {
  return exchange(tile.values, plan(tile.tiling, windows, outputs), group_);
}

at::Tensor Space::read(const Tile& tile, std::span<const Window> windows, const Tiling& outputs, double padding) const {
  const Box reads = reads_of(box(outputs), windows), inside = common(reads, tile.tiling.whole());
  const at::Tensor chunk = read_inside(tile, windows, outputs);
  const std::vector<std::int64_t> pads = pads_around(inside, reads);
  const bool is_padded = volume(reads) > 0 && std::ranges::any_of(pads, [](std::int64_t pad) { return pad != 0; });
  return is_padded ? at::constant_pad_nd(chunk, pads, padding) : chunk;
}

Tiling Space::outputs(const Tile& tile, std::span<const Window> windows, const std::string& layer) const {
  if (tile.tiling.grid() != grid_ || windows.size() != grid_.size())
    throw Error(Code::invalid, "'" + layer + "' works on a grid of " + text_of(grid_) + ", but is given tiles of " +
                                   text_of(tile.tiling.grid()));
  std::vector<Cut> cuts;
  for (std::size_t d = 0; d < grid_.size(); ++d) {
    const std::int64_t extent = tile.tiling[d].extent(), count = windows[d].outputs(extent);
    if (count < 1)
      throw Error(Code::invalid, "'" + layer + "': a window of " + std::to_string(windows[d].reach()) +
                                     " does not fit into the " + std::to_string(extent) + " positions of dimension " +
                                     std::to_string(d) + " with their padding");
    cuts.push_back(count == extent ? tile.tiling[d] : Cut::even(count, grid_[d]));
  }
  return Tiling(std::move(cuts));
}

std::int64_t Space::bytes(const Tiling& tiling, std::span<const Window> windows, std::int64_t outer,
                          std::int64_t width) const {
  const Tile nothing{at::Tensor(), tiling};
  return outer * width * plan(tiling, windows, outputs(nothing, windows, "layer")).given();
}

// Autograd runs backward in the reverse order of creation. Arrive's backward starts the adjoint exchange, and Depart's
// backward finishes it. Between these two, autograd processes the operations that ran between Depart and Arrive.

namespace {

class Depart : public torch::autograd::Function<Depart> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& tile,
                            const c10::intrusive_ptr<SplitRead::Passage>& passage) {
    context->saved_data["passage"] = c10::IValue::make_capsule(passage);
    passage->there = passage->group->start(passage->plan, tile);
    return tile;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const auto kept = context->saved_data["passage"].toCapsule();
    auto& passage = static_cast<SplitRead::Passage&>(*kept);
    if (at::GradMode::is_enabled())
      throw Error(
          Code::unsupported,
          "a convolution that computes while boxes travel is differentiable once: make it with overlap = false");
    at::Tensor chunk = std::exchange(passage.gradient, at::Tensor());
    if (!chunk.defined()) {  // Arrive had no gradient on this rank, but other ranks send gradients
      const Box& want = passage.plan.want;
      const at::IntArrayRef sizes = gradients[0].sizes();
      chunk = at::zeros(sizes_of(sizes.slice(0, sizes.size() - want.size()), want), gradients[0].options());
      passage.back = passage.group->start_adjoint(passage.plan, chunk);
    }
    const at::Tensor added = passage.group->finish_adjoint(passage.plan, chunk, passage.back);
    return {gradients[0] + added, at::Tensor()};
  }
};

class Arrive : public torch::autograd::Function<Arrive> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& tile,
                            const c10::intrusive_ptr<SplitRead::Passage>& passage) {
    context->saved_data["passage"] = c10::IValue::make_capsule(passage);
    context->saved_data["sizes"] = tile.sizes();
    const ProcessGroup::Pending there = std::exchange(passage->there, {});
    return passage->group->finish(passage->plan, tile, there);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const auto kept = context->saved_data["passage"].toCapsule();
    auto& passage = static_cast<SplitRead::Passage&>(*kept);
    passage.gradient = gradients[0].contiguous();
    passage.back = passage.group->start_adjoint(passage.plan, passage.gradient);
    const auto sizes = context->saved_data["sizes"].toIntVector();
    return {at::zeros({}, gradients[0].options()).expand(sizes), at::Tensor()};  // Depart adds the received gradients
  }
};

}  // namespace

SplitRead::SplitRead(const Space& space, const Tile& tile, std::span<const Window> windows, const Tiling& outputs)
    : passage_(c10::make_intrusive<Passage>()) {
  passage_->plan = space.plan(tile.tiling, windows, outputs);
  passage_->group = space.group();
  tile_ = Depart::apply(tile.values, passage_);
}

at::Tensor SplitRead::finish() { return Arrive::apply(tile_, passage_); }

}  // namespace tutti::nn
