// data=images: JPEG and PNG files in one folder per class. The folders, sorted by name, are the classes 0, 1, ...
#include <algorithm>
#include <charconv>

#include "engine/data/files.hpp"
#include "engine/data/formats/image_file.hpp"
#include "engine/data/formats/kinds.hpp"

namespace tutti::engine {
namespace {

namespace fs = std::filesystem;

struct Format {
  std::size_t channels = 3, height = 0, width = 0;
  ReadLimits limits = {};
};

std::vector<std::string> classes_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const fs::path& each : list_folder(folder, {})) names.push_back(each.filename());
  if (names.empty()) refuse(folder, "has no folders: expected one for each class, with JPEG or PNG files in it");
  return names;
}

/// Images are decoded on access.
class ImageFolder : public Dataset {
 public:
  ImageFolder(const fs::path& folder, const std::vector<std::string>& classes, const Format& format) : format_(format) {
    constexpr std::string_view endings[] = {".jpg", ".jpeg", ".png"};
    for (const std::string& name : classes_in(folder)) {
      const auto at = std::find(classes.begin(), classes.end(), name);
      if (at == classes.end()) refuse(folder / name, "no such class among the training images");
      for (fs::path& file : list_folder(folder / name, endings))
        files_.push_back({std::move(file), at - classes.begin()});
    }
    if (files_.empty()) refuse(folder, "has no JPEG or PNG files in its folders");
  }

  std::size_t size() const override { return files_.size(); }

  std::vector<std::int64_t> labels() const {
    std::vector<std::int64_t> found;
    for (const File& each : files_) found.push_back(each.label);
    return found;
  }

  Sample get(std::size_t i) const override {
    const File& file = files_.at(i);
    Array image = read_image(file.path, format_.channels, format_.height, format_.width, format_.limits);
    return {{"image", std::move(image)}, {"label", Array::scalar(static_cast<std::int64_t>(file.label))}};
  }

 private:
  struct File {
    fs::path path;
    std::ptrdiff_t label = 0;
  };
  const Format format_;
  std::vector<File> files_;
};

/// The option "size=HxW"; by default the size of the first image.
Format format_of(const Source& source, const fs::path& folder, const std::vector<std::string>& classes) {
  Format format{.limits = source.limits};
  const std::string channels = source.option("channels", "3"), size = source.option("size");
  if (channels != "1" && channels != "3") source.refuse("channels=" + channels + ": there are 1, grey, and 3, colours");
  format.channels = channels == "1" ? 1 : 3;
  if (size.empty()) {
    const Sample first = ImageFolder(folder, classes, format).get(0);
    const ArrayShape& shape = first["image"].shape();
    return {format.channels, static_cast<std::size_t>(shape[1]), static_cast<std::size_t>(shape[2]), format.limits};
  }
  const char* const end = size.data() + size.size();
  const auto height = std::from_chars(size.data(), end, format.height);
  const auto width = height.ptr < end ? std::from_chars(height.ptr + 1, end, format.width) : height;
  if (height.ec != std::errc() || width.ec != std::errc() || width.ptr != end || *height.ptr != 'x' ||
      format.height < 1 || format.width < 1 || std::max(format.height, format.width) > 1 << 14)
    source.refuse("size=" + size + ": expected HEIGHTxWIDTH, as in size=64x64");
  return format;
}

}  // namespace

DataSplit open_images(const Source& source) {
  const PartFolders folders = part_folders(source.values.at(0));
  const std::vector<std::string> classes = classes_in(folders.train);
  const Format format = format_of(source, folders.train, classes);
  std::shared_ptr<const Dataset> test;
  if (!folders.test.empty()) test = std::make_shared<ImageFolder>(folders.test, classes, format);
  const auto train = std::make_shared<ImageFolder>(folders.train, classes, format);
  DataSplit split = split_of(source, train, test, train->labels());
  split.classes = classes.size();
  measure(split);
  const std::string shape = describe(split.train->get(0)["image"].shape());
  split.description = source.text + ": " + summary(split, "images, resized to " + shape + ",");
  return split;
}

}  // namespace tutti::engine
