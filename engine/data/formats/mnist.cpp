// data=idx: a folder in MNIST's layout, {train,t10k}-images-idx3-ubyte and {train,t10k}-labels-idx1-ubyte, each
// optionally with .gz.
#include "engine/data/files.hpp"
#include "engine/data/formats/idx.hpp"
#include "engine/data/formats/kinds.hpp"
#include "tutti/status.hpp"

namespace tutti::engine {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view how_to_get_data =
    "run `tutti data optdigits DIR` to make one, point data= at a folder with MNIST's four IDX files, or use "
    "data=random:1x28x28";

fs::path find(const fs::path& folder, const std::string& name) {
  for (const char* suffix : {"", ".gz"})
    if (fs::path file = folder / (name + suffix); fs::exists(file)) return file;
  refuse(folder, "has no " + name + "[.gz]; " + std::string(how_to_get_data));
}

std::shared_ptr<const ArrayDataset> read_part(const Source& source, const std::string& prefix) {
  const fs::path folder = source.values.at(0);
  const fs::path image_file = find(folder, prefix + "-images-idx3-ubyte");
  const fs::path label_file = find(folder, prefix + "-labels-idx1-ubyte");
  const Array images = read_idx(image_file, 3, source.limits), labels = read_idx(label_file, 1, source.limits);
  const ArrayShape& shape = images.shape();
  if (shape[0] != labels.shape()[0])
    refuse(label_file, "expected " + std::to_string(shape[0]) + " labels, one for each image, found " +
                           std::to_string(labels.shape()[0]));
  if (images.count() == 0) refuse(image_file, "holds no images");
  return std::make_shared<ArrayDataset>(
      Fields{{"image", images.reshaped({shape[0], 1, shape[1], shape[2]})}, {"label", labels.converted(DType::i64)}});
}

}  // namespace

DataSplit open_idx(const Source& source) {
  const fs::path folder = source.values.at(0);
  if (!fs::is_directory(folder)) refuse(folder, "no such data folder; " + std::string(how_to_get_data));
  const auto train = read_part(source, "train"), test = read_part(source, "t10k");
  const ArrayShape shape = train->get(0)["image"].shape(), held_out = test->get(0)["image"].shape();
  if (shape != held_out)
    refuse(folder, "training images are " + describe(shape) + ", held-out images " + describe(held_out) +
                       "; expected one shape");
  DataSplit split = split_of(source, train, test);
  for (const auto& part : {train, test})
    split.classes = std::max(split.classes, count_classes(part->columns()["label"], folder.string()));
  measure(split);
  split.description = folder.string() + ": " + summary(split, "images of " + describe(shape));
  return split;
}

}  // namespace tutti::engine
