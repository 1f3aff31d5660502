#include "engine/models/split.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "engine/config.hpp"
#include "tutti/status.hpp"

namespace tutti::engine {
namespace {

struct SplitName {
  std::string_view name;
  Split split;
};
constexpr std::array<SplitName, 12> names = {{{"auto", Split::automatic},
                                              {"replicate", Split::replicate},
                                              {"column", Split::column},
                                              {"row", Split::row},
                                              {"space", Split::space},
                                              {"none", Split::replicate},
                                              {"colwise", Split::column},
                                              {"rowwise", Split::row},
                                              {"vecpar", Split::row},
                                              {"modelpar", Split::row},
                                              {"halopar", Split::space},
                                              {"datapar", Split::replicate}}};

/// The two factors of `ranks` that are closest to each other, the larger one first.
std::pair<std::int64_t, std::int64_t> grid_of(std::int64_t ranks) {
  auto small = static_cast<std::int64_t>(std::sqrt(static_cast<double>(ranks)));
  while (ranks % small != 0) --small;
  return {ranks / small, small};
}

/// Resolves parallel.mode, whose values are neon's: it chooses axes for the ranks that parallel.* assigns to no axis.
Config::Parallel settled(const Config::Parallel& given, int ranks) {
  Config::Parallel all = given;
  const auto only = [&](bool is_in, std::int64_t size, const char* axis) {
    if (!is_in && size > 1)
      refuse("parallel.mode=" + given.mode + " has no axis " + axis + ": leave parallel." + axis +
             " out, or parallel.mode");
  };
  if (given.mode == "auto") return all;
  const bool tensor = given.mode == "modelpar" || given.mode == "vecpar";
  const bool space = given.mode == "halopar" || given.mode == "halodatapar";
  only(space, given.height, "height"), only(space, given.width, "width"), only(space, given.depth, "depth");
  only(tensor, given.tensor, "tensor"), only(false, given.sequence, "sequence");
  if (given.mode == "datapar") return all;
  if (tensor && given.tensor == 1) all.tensor = ranks / std::max<std::int64_t>(given.data, 1);
  if (space && given.height * given.width * given.depth == 1) {
    std::int64_t tiles = ranks / std::max<std::int64_t>(given.data, 1);
    // at most 2 x 2 tiles, as in neon
    if (given.mode == "halodatapar" && given.data == 0) tiles = std::min<std::int64_t>(tiles, 4);
    std::tie(all.height, all.width) = grid_of(std::max<std::int64_t>(tiles, 1));
  }
  if (given.mode != "halodatapar" && given.data == 0) all.data = 1;
  return all;
}

}  // namespace

Split parse_split(std::string_view text) {
  const auto found = std::ranges::find(names, text, &SplitName::name);
  if (found != names.end()) return found->split;
  if (text == "halodatapar") return Split::space;
  refuse("parallel=" + std::string(text) + ": expected auto, replicate, column, row or space");
}

std::string_view name_of(Split split) noexcept { return names[static_cast<std::size_t>(split)].name; }

std::map<std::string, Split, std::less<>> parse_splits(std::string_view text) {
  std::map<std::string, Split, std::less<>> found;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(','), text.size());
    const std::string_view one = text.substr(0, end);
    const std::size_t equals = one.find('=');
    if (equals == one.npos || equals == 0)
      refuse("parallel.layers: '" + std::string(one) + "' is no LAYER=HOW, as in fc1=column");
    found.insert_or_assign(std::string(one.substr(0, equals)), parse_split(one.substr(equals + 1)));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return found;
}

SplitChoices split_choices(const Config& config) {
  const std::string& mode = config.parallel.mode;
  SplitChoices choices{.layers = parse_splits(config.parallel.layers)};
  if (mode == "modelpar" || mode == "vecpar") choices.dense = Split::row;
  choices.images_first = mode == "halopar" || mode == "halodatapar";
  choices.batch_norm = config.sync.batch_norm;
  return choices;
}

std::vector<Mesh::Axis> mesh_axes(const Config& config, int ranks) {
  const Config::Parallel all = settled(config.parallel, ranks);
  std::vector<Mesh::Axis> axes{{"data", all.data == 0 ? -1 : static_cast<int>(all.data)}};
  const auto add = [&](const char* name, std::int64_t size) {
    if (size > 1) axes.push_back({name, static_cast<int>(size)});
  };
  add("depth", all.depth), add("height", all.height), add("width", all.width);
  add("sequence", all.sequence), add("tensor", all.tensor);
  try {
    return Mesh::fit(std::move(axes), ranks);
  } catch (const Error& error) {
    refuse("parallel: " + std::string(error.what()));
  }
}

bool splits_network(const Config& config, int ranks) { return mesh_axes(config, ranks).size() > 1; }

}  // namespace tutti::engine
