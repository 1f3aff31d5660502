// data=cifar10, data=cifar100: the binary version of CIFAR (A. Krizhevsky, 2009). A record is a label (in CIFAR-100 a
// coarse and a fine one) and 3x32x32 bytes.
#include "engine/data/files.hpp"
#include "engine/data/formats/kinds.hpp"

namespace tutti::engine {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t pixels = 3 * 32 * 32;

struct Layout {
  const char* folder;  // name of the folder in the archive
  std::vector<std::string> train, test;
  std::vector<const char*> labels;
  std::vector<std::size_t> classes;  // number of classes, per label
};

fs::path find(const fs::path& folder, const Layout& layout, const std::string& name) {
  for (const fs::path& place : {folder / name, folder / layout.folder / name})
    if (fs::exists(place)) return place;
  refuse(folder, "has no " + name + ": expected the files of CIFAR's binary version");
}

std::shared_ptr<const Dataset> read_part(const Source& source, const Layout& layout,
                                         const std::vector<std::string>& names) {
  const fs::path folder = source.values.at(0);
  const std::size_t labels = layout.labels.size(), record = labels + pixels;
  std::vector<std::uint8_t> images;
  std::vector<std::vector<std::int64_t>> found(labels);
  for (const std::string& name : names) {
    const fs::path file = find(folder, layout, name);
    const std::vector<std::uint8_t> bytes = read_whole(file, source.limits);
    if (bytes.empty() || bytes.size() % record != 0)
      refuse(file, "expected a multiple of " + std::to_string(record) + " bytes, found " +
                       std::to_string(bytes.size()) + "; the file is truncated or corrupt, fetch it again");
    for (auto at = bytes.begin(); at != bytes.end(); at += pixels) {
      for (std::size_t l = 0; l < labels; ++l, ++at) {
        if (*at >= layout.classes[l])
          refuse(file, "the label of image " + std::to_string(static_cast<std::size_t>(at - bytes.begin()) / record) +
                           " is " + std::to_string(*at) + ": expected 0 to " + std::to_string(layout.classes[l] - 1) +
                           "; the file is corrupt, fetch it again");
        found[l].push_back(*at);
      }
      images.insert(images.end(), at, at + pixels);
    }
  }
  const auto count = static_cast<std::int64_t>(found[0].size());
  Fields columns{{"image", Array(std::move(images), {count, 3, 32, 32})}};
  for (std::size_t l = 0; l < labels; ++l) columns[layout.labels[l]] = Array(std::move(found[l]));
  return std::make_shared<ArrayDataset>(std::move(columns));
}

DataSplit open(const Source& source, const Layout& layout) {
  DataSplit split = split_of(source, read_part(source, layout, layout.train), read_part(source, layout, layout.test));
  split.classes = layout.classes.back();
  measure(split);
  split.description = source.text + ": " + summary(split, "images of 3x32x32");
  return split;
}

}  // namespace

DataSplit open_cifar10(const Source& source) {
  Layout layout{"cifar-10-batches-bin", {}, {"test_batch.bin"}, {"label"}, {10}};
  for (int i = 1; i <= 5; ++i) layout.train.push_back("data_batch_" + std::to_string(i) + ".bin");
  return open(source, layout);
}

DataSplit open_cifar100(const Source& source) {
  return open(source, {"cifar-100-binary", {"train.bin"}, {"test.bin"}, {"coarse", "label"}, {20, 100}});
}

}  // namespace tutti::engine
