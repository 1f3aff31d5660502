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
  std::size_t chunk_rows = 0;  ///< number of rows that are compressed together; 0: each row can be read by itself
  std::size_t rows() const noexcept { return static_cast<std::size_t>(shape[0]); }
  ArrayShape row_shape() const { return {shape.begin() + 1, shape.end()}; }
};

/// The chunk cache of an open dataset: at most `bytes` bytes of chunks, in a hash table of `slots` places.
struct Hdf5ChunkCache {
  std::size_t bytes = 0, slots = 0;
};

/// An HDF5 file open for reading. The chunk cache of a compressed dataset holds at least the chunks of one row, and up
/// to four times as many while the caches of all datasets together have at most `chunk_cache` bytes. A dataset that
/// claims much more than the file stores is refused. A dataset in another file is refused unless `limits` allow it.
/// Errors are Error{invalid}, in one line, with the file and the dataset. Any thread.
class Hdf5File {
 public:
  static constexpr std::size_t default_chunk_cache = std::size_t{32} << 20;

  explicit Hdf5File(std::filesystem::path file, const ReadLimits& limits = {},
                    std::size_t chunk_cache = default_chunk_cache);
  ~Hdf5File();
  Hdf5File(const Hdf5File&) = delete;
  Hdf5File& operator=(const Hdf5File&) = delete;

  /// Reads the layout and the first rows of the datasets of these names in a child process. Throws if the child crashes
  /// or does not end: libhdf5 trusts much of what a file says, so a corrupt file can make it do either.
  static void try_out(const std::filesystem::path& file, const ReadLimits& limits,
                      const std::vector<std::string>& names);

  /// The dataset `name`; if it is a group, the datasets in it and below, sorted by name.
  std::vector<Hdf5Column> columns(const std::string& name) const;
  /// Rows [begin, begin + rows) of a dataset.
  Array read(const Hdf5Column& column, std::size_t begin, std::size_t rows) const;
  Array read(const Hdf5Column& column) const { return read(column, 0, column.rows()); }
  /// The chunk cache of a dataset with chunks; {} for any other.
  Hdf5ChunkCache chunk_cache(const std::string& path) const;

 private:
  std::int64_t dataset(const std::string& path) const;
  void collect(const std::string& path, int depth, std::size_t& objects, std::vector<Hdf5Column>& found) const;
  std::int64_t access_to(std::int64_t id) const;
  void check_storage(const Hdf5Column& column, std::int64_t id) const;
  [[noreturn]] void refuse_dataset(const std::string& path, const std::string& what) const;

  std::filesystem::path file_;
  const ReadLimits limits_;
  std::size_t stored_ = 0;  // the size of the file
  std::int64_t id_ = -1;
  std::int64_t access_ = -1;                              // how datasets and links are opened
  mutable std::size_t chunk_cache_left_;                  // bytes for the datasets that are not open yet
  mutable std::string other_file_;                        // file of a link that was refused
  mutable std::map<std::string, std::int64_t> datasets_;  // open datasets, by path
};

/// Writes a file with one dataset per array; slashes in a name create groups. Throws Error{resource} with the file's
/// name, and Error{unsupported} in builds without HDF5. Any thread.
void write_hdf5(const std::filesystem::path& file, const Fields& columns);

}  // namespace tutti::engine
