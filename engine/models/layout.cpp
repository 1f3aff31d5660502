#include "engine/models/layout.hpp"

#include <algorithm>

namespace tutti::engine {
namespace {

nn::Space space_of_one() { return {std::make_shared<nn::ProcessGroup>(0, 1, "one rank"), {1, 1}}; }

}  // namespace

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
