// The kinds of data that `data=` can name: how each is opened, and what they share. What they are is in the table of
// source.cpp.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "engine/data/source.hpp"

namespace tutti::engine {

DataSplit open_idx(const Source& source);
DataSplit open_cifar10(const Source& source);
DataSplit open_cifar100(const Source& source);
DataSplit open_hdf5(const Source& source);
DataSplit open_images(const Source& source);
DataSplit open_csv(const Source& source);
DataSplit open_npy(const Source& source);
DataSplit open_text(const Source& source);
DataSplit open_random(const Source& source);

/// Training and held-out samples. Without `test`, a tenth of the training samples is held out, always the same ones.
DataSplit split_of(const Source& source, std::shared_ptr<const Dataset> train, std::shared_ptr<const Dataset> test);

/// What was read from a file or two: a row for each sample.
struct Columns {
  std::string where;  ///< names the file of the targets, in errors
  Array input, target;
};

/// Makes a split from training samples and perhaps held-out ones, all in memory. Targets that are one integer each are
/// classes (array "label", of i64), unless the source has the option regression; others are numbers (array "target", of
/// f32). The source's option classes says how many classes there are; else it is the largest class and one.
DataSplit split_of(const Source& source, const std::vector<Columns>& parts, const std::string& input);

/// Measures mean and deviation of the bytes of an input: of all samples in memory, else of a thousand at most.
void measure(DataSplit& split);

/// "1438 training and 359 held-out images of 1x8x8 in 10 classes", where `samples` is "images of 1x8x8".
std::string summary(const DataSplit& split, std::string_view samples);

/// The largest class and one. Throws Error{invalid} naming `where` and the row if an integer is not in [0, limit);
/// limit 0: any. `labels` has a row for each sample.
std::size_t count_classes(const Array& labels, const std::string& where, std::size_t limit = 0);

/// `folder`/train and `folder`/test (or val), where they are there; else the folder, and nothing.
struct PartFolders {
  std::filesystem::path train, test;
};
PartFolders part_folders(const std::filesystem::path& folder);

}  // namespace tutti::engine
