#include "engine/data/sampling.hpp"

#include <algorithm>
#include <string>

namespace tutti::engine {

std::size_t place_of(std::string_view key, std::string_view name, std::initializer_list<std::string_view> names) {
  const auto found = std::ranges::find(names, name);
  if (found != names.end()) return static_cast<std::size_t>(found - names.begin());
  std::string known;
  for (auto each = names.begin(); each != names.end(); ++each)
    known += (each == names.begin() ? "" : each + 1 == names.end() ? " or " : ", ") + std::string(*each);
  refuse(std::string(key) + "=" + std::string(name) + ": expected " + known);
}

/// If batch.micro is set, no micro-batch has more than batch.micro samples.
std::size_t cuts_of(const Config& config, int ranks) {
  if (const std::size_t grains = grains_of(config); grains > 0) return grains;
  if (config.batch.micro == 0) return 0;
  const std::int64_t mine = (config.batch.global + ranks - 1) / ranks;
  const std::int64_t cuts = (mine + config.batch.micro - 1) / config.batch.micro * ranks;
  return static_cast<std::size_t>(std::max<std::int64_t>(std::min(cuts, config.batch.global), ranks));
}

namespace {

/// With data.last=auto, data.remainder=drop also drops a last step that is not full, even on one rank.
Last last_of(const Config& config) {
  const std::size_t place = place_of("data.last", config.data.last, {"auto", "keep", "drop", "pad"});
  if (place == 0) return config.data.remainder == "drop" ? Last::drop : Last::keep;
  return static_cast<Last>(place - 1);
}

Shuffle shuffle_of(const Config& config, std::size_t samples) {
  const std::size_t place = place_of("data.order", config.data.order, {"auto", "list", "keyed"});
  return place == 0 ? default_shuffle(samples) : place == 1 ? Shuffle::listed : Shuffle::keyed;
}

}  // namespace

Sampler sampler_for(const Config& config, int rank, int size, const Dataset& data) {
  return Sampler(
      {.samples = data.size(),
       .batch = static_cast<std::size_t>(config.batch.global),
       .rank = rank,
       .size = size,
       .seed = static_cast<std::uint64_t>(config.seed),
       .way = static_cast<Way>(place_of("data.way", config.data.way, {"batch", "contiguous", "strided", "file"})),
       .remainder =
           static_cast<Remainder>(place_of("data.remainder", config.data.remainder, {"uneven", "drop", "pad"})),
       .last = last_of(config),
       .grains = cuts_of(config, size),
       .files = config.data.way == "file" ? data.files() : std::vector<std::size_t>{},
       .blocks = data.blocks(),
       .shuffle = shuffle_of(config, data.size())});
}

std::vector<Transform> transforms_for(const Config& config, const DataSplit& data) {
  std::vector<Transform> found;
  const std::string& input = data.inputs[0];
  if (config.data.shift > 0) found.push_back(shift(input, static_cast<int>(config.data.shift)));
  if (config.data.crop > 0) {
    const ImageShape image = data.image();
    found.push_back(random_crop(input, static_cast<int>(image.height), static_cast<int>(image.width),
                                static_cast<int>(config.data.crop)));
  }
  if (config.data.mirror) found.push_back(mirror(input));
  for (Transform& each : data.preparation()) found.push_back(std::move(each));
  return found;
}

}  // namespace tutti::engine
