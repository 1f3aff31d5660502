// HDF5 files as one data set. Only a few of the files are open at a time, and compressed data are unpacked in blocks.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "engine/data/dataset.hpp"
#include "engine/data/files.hpp"

namespace tutti::engine {

struct Hdf5Options {
  std::string features = "features";  ///< a dataset, or a group: then all datasets in it and below are inputs
  std::string labels = "labels";      ///< a dataset: class indices, one-hot rows, or numbers
  std::size_t classes = 0;            ///< number of classes; 0: the largest label plus 1
  std::size_t open = 4;               ///< maximum number of files open, or in memory, at a time
  bool preload = false;               ///< load whole files into memory, and the next expected ones ahead of time
  /// without preload: maximum size in bytes of the rows that stay in memory, if they are compressed or if there are
  /// more files than may be open; two blocks of rows stay in any case
  std::size_t memory = std::size_t{256} << 20;
  /// files are copied into a new folder in here at first use; empty: no copies
  std::filesystem::path cache = {};
  ReadLimits limits = {};
};

/// Reads a text file with one path per line, relative to the text file's folder. Blank lines and lines that start with
/// # are skipped; an HDF5 file is returned as the only path. Throws Error{invalid}: "LIST:LINE: FILE: no such file".
std::vector<std::filesystem::path> read_list(const std::filesystem::path& list);

/// The samples of all files, in the order of the list. The constructor opens each file once to read its layout; later a
/// file is opened when a sample in it is requested. Copies in the cache are removed with the data set. Errors name the
/// file.
class Hdf5Dataset : public Dataset {
 public:
  Hdf5Dataset(std::vector<std::filesystem::path> files, Hdf5Options options);
  ~Hdf5Dataset() override;

  std::size_t size() const override;
  Sample get(std::size_t i) const override;
  std::vector<std::size_t> files() const override;
  Blocks blocks() const override;
  void expect(const Coming& coming) const override;

  const std::vector<std::string>& inputs() const noexcept;  ///< "features", or "features/a", "features/b"
  const std::string& target() const noexcept;               ///< "label" for classes, else "target"
  std::size_t classes() const noexcept;                     ///< 0: the targets are numbers
  std::size_t most_open() const noexcept;  ///< maximum number of files that have been open, or in memory, at a time
  std::size_t opened() const noexcept;     ///< how often a file was opened or loaded
  std::size_t reads() const noexcept;      ///< how often a block of rows, or with preload a file, was read into memory
  /// One line for the user: how samples are shuffled, and how to shuffle them freely. Empty if they already are.
  const std::string& note() const noexcept;

 private:
  class Files;
  std::unique_ptr<Files> files_;
};

}  // namespace tutti::engine
