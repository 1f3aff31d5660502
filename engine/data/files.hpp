// File access for readers: as a stream, gzip'd or not, or memory-mapped. Errors are Error{invalid}, in one line, with
// the file's name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tutti::engine {

/// Limits for reading files from unknown sources. The sizes in a header are not believed until that many bytes have
/// been read.
struct ReadLimits {
  std::size_t max_pixels = 178'956'970;  ///< of an image, as in PIL
  std::size_t max_compression = 100;     ///< largest ratio of unpacked to stored bytes, beyond the first 16 MiB
  bool external_files = false;           ///< true: an HDF5 file may have its data in other files

  /// The most bytes that `stored` bytes may unpack to.
  std::size_t unpacked(std::size_t stored) const noexcept;
};

/// Throws Error{invalid} with the text "FILE: what".
[[noreturn]] void refuse(const std::filesystem::path& file, const std::string& what);

/// Reads a file from its beginning, decompressing it if it is gzip'd. One thread at a time.
class GzipReader {
 public:
  explicit GzipReader(const std::filesystem::path& file, const ReadLimits& limits = {});
  ~GzipReader();
  GzipReader(const GzipReader&) = delete;
  GzipReader& operator=(const GzipReader&) = delete;

  /// Returns the number of bytes read, which is smaller than `bytes` only at the end of the file.
  std::size_t read(std::uint8_t* into, std::size_t bytes);
  /// Reads exactly `bytes` bytes. Memory is allocated as data arrives, so a corrupt header cannot cause a huge
  /// allocation. Throws if the file has fewer bytes, or more if `to_end` is set.
  std::vector<std::uint8_t> read_exactly(std::size_t bytes, bool to_end);

 private:
  void check();
  std::filesystem::path file_;
  const ReadLimits limits_;
  void* stream_;
  std::size_t read_ = 0;
};

/// The contents of a file, decompressed if it is gzip'd.
std::vector<std::uint8_t> read_whole(const std::filesystem::path& file, const ReadLimits& limits = {});

/// A memory-mapped file; pages are read on access. The mapping lasts as long as `memory`.
struct MappedFile {
  std::shared_ptr<const std::byte> memory;
  std::size_t bytes = 0;
};
MappedFile map_file(const std::filesystem::path& file);

/// The files in a folder with one of the `endings` (".txt"), or its subfolders if `endings` is empty; sorted.
std::vector<std::filesystem::path> list_folder(const std::filesystem::path& folder,
                                               std::span<const std::string_view> endings);

}  // namespace tutti::engine
