#include "tutti/mesh.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <span>

#include "transports/core/sha256.hpp"
#include "tutti/status.hpp"

namespace tutti {
namespace {

constexpr std::array<std::string_view, 6> names = {"data", "depth", "height", "width", "sequence", "tensor"};
constexpr std::array<std::array<std::string_view, 2>, 3> short_names = {
    {{"dp", "data"}, {"tp", "tensor"}, {"cp", "sequence"}}};

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

std::vector<std::string_view> pieces(std::string_view text, char between) {
  std::vector<std::string_view> found;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(between, at), text.size());
    found.push_back(trimmed(text.substr(at, end - at)));
    at = end + 1;
  }
  return found;
}

std::string full_name(std::string_view axis) {
  for (const auto& [alias, name] : short_names)
    if (axis == alias) return std::string(name);
  if (std::ranges::find(names, axis) != names.end()) return std::string(axis);
  throw Error(Code::invalid, "a mesh has no axis '" + std::string(axis) +
                                 "': axes are data (dp), depth, height, width, sequence (cp) and tensor (tp)");
}

/// Throws Error{mismatch} on all ranks unless they pass the same axes. Collective; blocks.
void check_agreed(Communicator& world, const std::string& text) {
  const Digest mine = sha256(std::as_bytes(std::span(text)));
  std::vector<std::byte> all(sizeof mine * static_cast<std::size_t>(world.size()));
  world.allgather(ConstBuffer(&mine, sizeof mine, DType::u8), Buffer(all.data(), all.size(), DType::u8)).wait();
  for (int i = 0; i < world.size(); ++i)
    if (std::memcmp(all.data() + sizeof mine * static_cast<std::size_t>(i), &mine, sizeof mine) != 0)
      throw Error(Code::mismatch,
                  "mesh " + text + " of rank " + std::to_string(world.rank()) + ", but rank " + std::to_string(i) +
                      " has other axes: all ranks must give the same ones",
                  world.world_rank(i));
}

}  // namespace

std::string Mesh::name_of(const std::vector<Axis>& axes) {
  std::string text;
  for (const Axis& axis : axes)
    text += (text.empty() ? "" : " x ") + axis.name + " " + (axis.size < 0 ? "?" : std::to_string(axis.size));
  return text.empty() ? "of no axes" : text;
}

std::vector<Mesh::Axis> Mesh::fit(std::vector<Axis> axes, int ranks) {
  std::int64_t product = 1;
  Axis* open = nullptr;
  for (Axis& axis : axes) {
    axis.name = full_name(axis.name);
    if (std::ranges::count(axes, axis.name, &Axis::name) > 1)
      throw Error(Code::invalid, "mesh " + name_of(axes) + " has the axis " + axis.name + " twice");
    if (axis.size == 0 || axis.size < -1 || (axis.size == -1 && open != nullptr))
      throw Error(Code::invalid, "mesh " + name_of(axes) + ": the size of " + axis.name +
                                     " must be at least 1, or -1 on one axis for what the others leave");
    if (axis.size == -1)
      open = &axis;
    else
      product *= axis.size;
  }
  if (open != nullptr && ranks % product == 0) {
    open->size = static_cast<int>(ranks / product);
    product = ranks;
  }
  if (product != ranks)
    throw Error(Code::invalid, "mesh " + name_of(axes) + " has " + (open == nullptr ? "" : "a multiple of ") +
                                   std::to_string(product) + " ranks, but the communicator has " +
                                   std::to_string(ranks) + ": start that many, or change an axis");
  return axes;
}

struct Mesh::State {
  Communicator world;
  std::vector<Axis> axes;
  std::mutex mutex;
  std::map<std::string, Communicator, std::less<>> groups;  // by the names of their axes, in the mesh's order

  /// Element i is true if `text` names axis i of the mesh. Throws Error{invalid} for names that are no axis of any mesh
  /// and, with `must_be_there`, for axes that this mesh lacks.
  std::vector<bool> chosen(std::string_view text, bool must_be_there) const {
    std::vector<bool> is_in(axes.size(), false);
    for (const std::string_view piece : pieces(text, ',')) {
      const auto found = std::ranges::find(axes, full_name(piece), &Axis::name);
      if (found != axes.end())
        is_in[static_cast<std::size_t>(found - axes.begin())] = true;
      else if (must_be_there)
        throw Error(Code::invalid, "mesh " + Mesh::name_of(axes) + " has no axis " + full_name(piece));
    }
    return is_in;
  }
  /// The difference between the world ranks of two neighbours along an axis.
  int step(std::size_t axis) const {
    int ranks = 1;
    for (std::size_t i = axis + 1; i < axes.size(); ++i) ranks *= axes[i].size;
    return ranks;
  }
  int place(std::size_t axis, int rank) const { return rank / step(axis) % axes[axis].size; }
};

Mesh::Mesh(Communicator world, std::vector<Axis> axes) {
  axes = fit(std::move(axes), world.size());
  check_agreed(world, name_of(axes));
  state_ = std::make_shared<State>(std::move(world), std::move(axes));
}

std::vector<Mesh::Axis> Mesh::parse(std::string_view text) {
  std::vector<Axis> axes;
  for (const std::string_view piece : pieces(text, ',')) {
    const std::size_t equals = piece.find('=');
    const std::string_view digits =
        equals == std::string_view::npos ? std::string_view() : trimmed(piece.substr(equals + 1));
    int size = 0;
    const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), size);
    if (problem != std::errc() || end != digits.data() + digits.size())
      throw Error(Code::invalid, "mesh '" + std::string(text) + "': write AXIS=RANKS,..., as in data=2,tensor=4");
    axes.push_back({full_name(trimmed(piece.substr(0, equals))), size});
  }
  return axes;
}

const Communicator& Mesh::world() const noexcept { return state_->world; }
const std::vector<Mesh::Axis>& Mesh::axes() const noexcept { return state_->axes; }

bool Mesh::has(std::string_view axis) const { return std::ranges::count(axes(), full_name(axis), &Axis::name) > 0; }

int Mesh::size(std::string_view axes) const {
  const std::vector<bool> is_in = state_->chosen(axes, false);
  int product = 1;
  for (std::size_t i = 0; i < is_in.size(); ++i)
    if (is_in[i]) product *= state_->axes[i].size;
  return product;
}

int Mesh::rank(std::string_view axes) const {
  const std::vector<bool> is_in = state_->chosen(axes, false);
  int number = 0;
  for (std::size_t i = 0; i < is_in.size(); ++i)
    if (is_in[i]) number = number * state_->axes[i].size + state_->place(i, world().rank());
  return number;
}

std::vector<int> Mesh::members(std::string_view axes, int rank) const {
  const std::vector<bool> is_in = state_->chosen(axes, true);
  std::vector<int> ranks;
  for (int other = 0; other < world().size(); ++other) {
    bool differs_elsewhere = false;
    for (std::size_t i = 0; i < is_in.size(); ++i)
      differs_elsewhere |= !is_in[i] && state_->place(i, other) != state_->place(i, rank);
    if (!differs_elsewhere) ranks.push_back(other);
  }
  return ranks;
}

Communicator Mesh::operator[](std::string_view axes) const {
  const std::vector<bool> is_in = state_->chosen(axes, true);
  std::string name;
  for (std::size_t i = 0; i < is_in.size(); ++i)
    if (is_in[i]) name += (name.empty() ? "" : ",") + state_->axes[i].name;
  const std::scoped_lock lock(state_->mutex);
  if (const auto found = state_->groups.find(name); found != state_->groups.end()) return found->second;
  Communicator made = state_->world.group(members(axes, world().rank()), "mesh " + name_of(this->axes()) + ": " + name);
  return state_->groups.emplace(name, std::move(made)).first->second;
}

std::string Mesh::name() const { return name_of(axes()); }

std::string Mesh::describe() const {
  std::string text = "mesh " + name() + " of " + std::to_string(world().size()) + " ranks\n";
  const Topology places = world().topology();
  const int row = axes().empty() ? 1 : axes().back().size;
  for (int first = 0; first < world().size(); first += row) {
    text += " ";
    for (std::size_t i = 0; i + 1 < axes().size(); ++i)
      text += " " + axes()[i].name + " " + std::to_string(state_->place(i, first)) + ",";
    text += (axes().empty() ? "" : " " + axes().back().name + ":");
    for (int rank = first; rank < first + row; ++rank) {
      const std::string& host = places[rank].host_name;
      text += (rank == first ? " rank " : ", rank ") + std::to_string(rank);
      if (rank == first || host != places[rank - 1].host_name) text += " on " + host;
    }
    text += "\n";
  }
  return text;
}

}  // namespace tutti
