// Folders in MNIST's layout, and random images.
#include "engine/data/dataset.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "engine/data/idx.hpp"
#include "engine/data/random.hpp"
#include "transports/core/status.hpp"

namespace tutti::engine {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view how_to_get_data =
    "run `tutti data optdigits DIR` to make one, point data= at a folder with MNIST's four IDX files, or use "
    "data=random:1x28x28";

fs::path find(const fs::path& folder, const std::string& name) {
  for (const char* suffix : {"", ".gz"})
    if (fs::path file = folder / (name + suffix); fs::exists(file)) return file;
  throw Error(Code::invalid, folder.string() + ": has no " + name + "[.gz]; " + std::string(how_to_get_data));
}

Dataset read_part(const fs::path& folder, const std::string& prefix) {
  const fs::path image_file = find(folder, prefix + "-images-idx3-ubyte");
  const fs::path label_file = find(folder, prefix + "-labels-idx1-ubyte");
  IdxArray images = read_idx(image_file, 3);
  IdxArray labels = read_idx(label_file, 1);
  if (images.dims[0] != labels.dims[0])
    throw Error(Code::invalid, label_file.string() + ": expected " + std::to_string(images.dims[0]) +
                                   " labels, one for each image, found " + std::to_string(labels.dims[0]));
  if (images.bytes.empty()) throw Error(Code::invalid, image_file.string() + ": holds no images");
  return {{1, images.dims[1], images.dims[2]}, std::move(images.bytes), std::move(labels.bytes)};
}

std::string describe(const ImageShape& s) {
  return std::to_string(s.channels) + "x" + std::to_string(s.height) + "x" + std::to_string(s.width);
}

void measure(DataSplit& split) {
  double total = 0, squares = 0;
  for (std::uint8_t pixel : split.train.pixels) {
    total += pixel;
    squares += double{1} * pixel * pixel;
  }
  const double n = static_cast<double>(split.train.pixels.size());
  const double mean = total / n;
  const double deviation = std::sqrt(std::max(squares / n - mean * mean, 0.0));
  split.mean = static_cast<float>(mean / 255);
  split.deviation = deviation > 0 ? static_cast<float>(deviation / 255) : 1.0F;
  const auto top = [](const Dataset& d) { return *std::max_element(d.labels.begin(), d.labels.end()); };
  split.classes = std::size_t{1} + std::max(top(split.train), top(split.test));
}

Dataset random_images(const ImageShape& shape, std::size_t samples, Random random) {
  Dataset data{shape, std::vector<std::uint8_t>(samples * shape.pixels()), std::vector<std::uint8_t>(samples)};
  for (auto& pixel : data.pixels) pixel = static_cast<std::uint8_t>(random.next() >> 56);
  for (std::size_t i = 0; i < samples; ++i) data.labels[i] = static_cast<std::uint8_t>(i % 10);
  return data;
}

ImageShape parse_shape(std::string_view text) {
  std::array<std::size_t, 3> dims{};
  const char* at = text.data();
  const char* const end = at + text.size();
  bool good = true;
  for (std::size_t d = 0; d < 3 && good; ++d) {
    const auto [rest, error] = std::from_chars(at, end, dims[d]);
    good =
        error == std::errc() && dims[d] > 0 && dims[d] <= 4096 && (d == 2 ? rest == end : rest != end && *rest == 'x');
    at = rest + 1;
  }
  if (!good)
    throw Error(Code::invalid,
                "data=random:" + std::string(text) + ": expected random:CHANNELSxHEIGHTxWIDTH, as in random:1x28x28");
  return {dims[0], dims[1], dims[2]};
}

}  // namespace

DataSplit load_folder(const fs::path& folder) {
  if (!fs::is_directory(folder))
    throw Error(Code::invalid, folder.string() + ": no such data folder; " + std::string(how_to_get_data));
  DataSplit split;
  split.train = read_part(folder, "train");
  split.test = read_part(folder, "t10k");
  if (split.train.shape != split.test.shape)
    throw Error(Code::invalid, folder.string() + ": training images are " + describe(split.train.shape) +
                                   ", held-out images " + describe(split.test.shape) + "; expected one shape");
  measure(split);
  split.description = folder.string() + ": " + std::to_string(split.train.size()) + " training and " +
                      std::to_string(split.test.size()) + " held-out images of " + describe(split.train.shape) +
                      " in " + std::to_string(split.classes) + " classes";
  return split;
}

DataSplit random_split(std::string_view shape, std::size_t samples, std::uint64_t seed) {
  const ImageShape parsed = parse_shape(shape);
  DataSplit split;
  split.train = random_images(parsed, samples, Random::keyed(seed, 1));
  split.test = random_images(parsed, std::max<std::size_t>(samples / 8, 1), Random::keyed(seed, 2));
  measure(split);
  split.classes = 10;
  split.description = "random tensors of " + describe(parsed) + ", not images: " + std::to_string(samples) +
                      " samples for measuring throughput; accuracy means nothing here";
  return split;
}

DataSplit load(const std::string& source, std::size_t random_samples, std::uint64_t seed) {
  constexpr std::string_view prefix = "random:";
  if (source.starts_with(prefix)) return random_split(source.substr(prefix.size()), random_samples, seed);
  return load_folder(source);
}

}  // namespace tutti::engine
