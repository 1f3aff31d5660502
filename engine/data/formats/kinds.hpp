// Functions that open each kind of data that `data=` can name, and helpers that they share. The table of kinds is in
// source.cpp.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "engine/data/formats/source.hpp"

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

/// Training and held-out samples. If `test` is null, a tenth of the training samples is held out; the choice is always
/// the same. With `classes`, the class of each training sample, it is a tenth of each class.
DataSplit split_of(const Source& source, std::shared_ptr<const Dataset> train, std::shared_ptr<const Dataset> test,
                   std::span<const std::int64_t> classes = {});

/// Arrays read from one or two files, with one row per sample.
struct Columns {
  std::string where;  ///< the file of the targets, for error messages
  Array input, target;
};

/// Makes a split from training samples, and optionally held-out ones, in memory. Targets that are one integer each are
/// classes (array "label", i64), unless the source has the option `regression`; others are numbers (array "target",
/// f32). The number of classes is the option `classes`, or else the largest class plus 1.
DataSplit split_of(const Source& source, const std::vector<Columns>& parts, const std::string& input);

/// Computes mean and standard deviation of an input of bytes: over all samples if they are in memory, else over up to
/// 1000 of them.
void measure(DataSplit& split);

/// "1438 training and 359 held-out images of 1x8x8 in 10 classes"; `samples` is "images of 1x8x8".
std::string summary(const DataSplit& split, std::string_view samples);

/// The largest class plus 1; `labels` has one row per sample. Throws Error{invalid} with `where` and the row if a label
/// is not in [0, limit); limit 0: no upper limit.
std::size_t count_classes(const Array& labels, const std::string& where, std::size_t limit = 0);

/// FOLDER/train and FOLDER/test (or FOLDER/val) if they exist; else FOLDER and an empty path.
struct PartFolders {
  std::filesystem::path train, test;
};
PartFolders part_folders(const std::filesystem::path& folder);

}  // namespace tutti::engine
