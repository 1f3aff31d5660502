// HDF5 files as one data set: a list of files, of which a few are open at a time.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "engine/data/dataset.hpp"

namespace tutti::engine {

struct Hdf5Options {
  std::string features = "features";  ///< a dataset; or a group, in which and below which all datasets are inputs
  std::string labels = "labels";      ///< a dataset: an integer for each sample, a row with one 1, or numbers
  std::size_t classes = 0;            ///< labels are below it; 0: the largest one says how many there are
  std::size_t open = 4;               ///< files open at a time, or in memory, at most
  bool preload = false;               ///< whole files in memory; the next one that was expected is read ahead
  std::filesystem::path cache =
      {};  ///< files are copied into a new folder in here when they are first wanted; empty: not
};

/// Every line of a text file that names one, which is where the list is, or in a folder from there. Blank lines and
/// those that begin with # are skipped. Throws Error{invalid}: "LIST:LINE: FILE: no such file".
std::vector<std::filesystem::path> read_list(const std::filesystem::path& list);

/// The samples of all files, in the order of the list. Looks into every file once when it is made; after that a file is
/// opened when something in it is asked for. The copies in the cache go with the data set. Errors name the file.
class Hdf5Dataset : public Dataset {
 public:
  Hdf5Dataset(std::vector<std::filesystem::path> files, Hdf5Options options);
  ~Hdf5Dataset() override;

  std::size_t size() const override;
  Sample get(std::size_t i) const override;
  std::vector<std::size_t> files() const override;
  void expect(std::span<const std::uint32_t> ids) const override;

  const std::vector<std::string>& inputs() const noexcept;  ///< "features", or "features/a", "features/b"
  const std::string& target() const noexcept;               ///< "label" for classes, else "target"
  std::size_t classes() const noexcept;                     ///< 0: the labels are numbers to come near to
  std::size_t most_open() const noexcept;                   ///< how many files have been open or in memory at a time
  std::size_t opened() const noexcept;                      ///< how often a file was opened or read

 private:
  class Files;
  std::unique_ptr<Files> files_;
};

}  // namespace tutti::engine
