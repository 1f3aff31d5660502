#include "engine/models/parallel/layout.hpp"

#include <ATen/Functions.h>

#include <algorithm>

namespace tutti::engine {
namespace {

nn::Space space_of_one() { return {std::make_shared<nn::ProcessGroup>(0, 1, "one rank"), {1, 1}}; }

}  // namespace

std::int64_t weights_of(const torch::nn::Module& module) {
  std::int64_t numbers = 0;
  for (const at::Tensor& parameter : module.parameters()) numbers += parameter.numel();
  return numbers;
}

at::Tensor drop_part(const at::Tensor& part, double rate, std::int64_t dim, std::int64_t extent, Interval mine) {
  std::vector<std::int64_t> whole = part.sizes().vec();
  whole[static_cast<std::size_t>(dim)] = extent;
  const at::Tensor noise = at::dropout(at::ones(whole, part.options()), rate, true);
  return part * noise.narrow(dim, mine.begin, mine.size());
}

Layout layout_of(const Mesh& mesh, bool batch_norm) {
  Layout layout{.mesh = mesh.name(),
                .space = nn::Space(mesh, 2),
                .one = space_of_one(),
                .tensor = nn::group_of(mesh, "tensor"),
                .sequence = nn::group_of(mesh, "sequence")};
  if (batch_norm) {
    std::string axes = "data";
    for (const char* axis : {"height", "width"})
      if (mesh.has(axis)) axes += std::string(",") + axis;
    layout.together = mesh[axes];
  }
  return layout;
}

Layout planned_layout(const std::vector<Mesh::Axis>& axes, int rank) {
  const std::string name = Mesh::name_of(axes);
  const auto size = [&](const char* axis) {
    const auto found = std::ranges::find(axes, axis, &Mesh::Axis::name);
    return found == axes.end() ? 1 : found->size;
  };
  const auto place = [&](const char* axis) {
    int rest = rank;
    for (auto each = axes.rbegin(); each != axes.rend(); ++each) {
      if (each->name == axis) return rest % each->size;
      rest /= each->size;
    }
    return 0;
  };
  const auto group = [&](const char* axis) {
    return std::make_shared<nn::ProcessGroup>(place(axis), size(axis), std::string(axis) + " of mesh " + name);
  };
  const int columns = size("width");
  return {
      .mesh = name,
      .space = nn::Space(std::make_shared<nn::ProcessGroup>(place("height") * columns + place("width"),
                                                            size("height") * columns, "height,width of mesh " + name),
                         {size("height"), columns}),
      .one = space_of_one(),
      .tensor = group("tensor"),
      .sequence = group("sequence")};
}

}  // namespace tutti::engine
