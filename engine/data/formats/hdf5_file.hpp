// Reading and writing of single HDF5 files. The library is not thread-safe, so all calls, for all files, take one lock.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "engine/data/files.hpp"
#include "engine/data/sample.hpp"

namespace tutti::engine {

/// A dataset in a file; its first dimension is the samples. Element types that Array does not have are converted to the
/// next larger type.
struct Hdf5Column {
  std::string path;  ///< "features/jets"
  DType dtype = DType::f32;
  ArrayShape shape;
  std::size_t rows() const noexcept { return static_cast<std::size_t>(shape[0]); }
  ArrayShape row_shape() const { return {shape.begin() + 1, shape.end()}; }
};

/// An HDF5 file open for reading. A dataset that claims much more than the file stores is refused, and so is one in
/// another file, unless `limits` allow it. Errors are Error{invalid}, in one line, with the file and the dataset. Any
/// thread.
class Hdf5File {
 public:
  explicit Hdf5File(std::filesystem::path file, const ReadLimits& limits = {});
  ~Hdf5File();
  Hdf5File(const Hdf5File&) = delete;
  Hdf5File& operator=(const Hdf5File&) = delete;

  /// Reads the layout and the first rows of the datasets of these names in a child process. Throws if libhdf5, which
  /// takes much in a file on trust, ends the process that reads it, or does not come back.
  static void try_out(const std::filesystem::path& file, const ReadLimits& limits,
                      const std::vector<std::string>& names);

  /// The dataset `name`; if it is a group, the datasets in it and below, sorted by name.
  std::vector<Hdf5Column> columns(const std::string& name) const;
  /// Rows [begin, begin + rows) of a dataset.
  Array read(const Hdf5Column& column, std::size_t begin, std::size_t rows) const;
  Array read(const Hdf5Column& column) const { return read(column, 0, column.rows()); }

 private:
  std::int64_t dataset(const std::string& path) const;
  void collect(const std::string& path, int depth, std::size_t& objects, std::vector<Hdf5Column>& found) const;
  void check_storage(const Hdf5Column& column, std::int64_t id) const;
  [[noreturn]] void refuse_dataset(const std::string& path, const std::string& what) const;

  std::filesystem::path file_;
  const ReadLimits limits_;
  std::size_t stored_ = 0;  // the size of the file
  std::int64_t id_ = -1;
  std::int64_t access_ = -1;                              // how datasets and links are opened
  mutable std::string other_file_;                        // that a link would have led to
  mutable std::map<std::string, std::int64_t> datasets_;  // open datasets, by path
};

/// Writes a file with one dataset per array; slashes in a name create groups. Throws Error{resource} with the file's
/// name, and Error{unsupported} in builds without HDF5. Any thread.
void write_hdf5(const std::filesystem::path& file, const Fields& columns);

}  // namespace tutti::engine
