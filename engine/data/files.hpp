// Files as readers take them: as a stream, gzip'd or not, or mapped into memory. Errors are Error{invalid}, one line
// that names the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tutti::engine {

/// Throws Error{invalid}: "FILE: what".
[[noreturn]] void refuse(const std::filesystem::path& file, const std::string& what);

/// Reads a file from its beginning; what is gzip'd is unpacked on the way. One thread at a time.
class GzipReader {
 public:
  explicit GzipReader(const std::filesystem::path& file);
  ~GzipReader();
  GzipReader(const GzipReader&) = delete;
  GzipReader& operator=(const GzipReader&) = delete;

  /// Bytes read, fewer than asked for at the end of the file.
  std::size_t read(std::uint8_t* into, std::size_t bytes);
  /// Exactly so many bytes; memory grows as they arrive, so that a corrupt header cannot ask for memory that no data
  /// backs. Throws if there are fewer, or if `to_end` and there are more.
  std::vector<std::uint8_t> read_exactly(std::size_t bytes, bool to_end);

 private:
  void check();
  std::filesystem::path file_;
  void* stream_;
};

/// All of a file, unpacked if it is gzip'd.
std::vector<std::uint8_t> read_whole(const std::filesystem::path& file);

/// A file as memory, which is read from disk where it is looked at. The mapping lasts as long as `memory`.
struct MappedFile {
  std::shared_ptr<const std::byte> memory;
  std::size_t bytes = 0;
};
MappedFile map_file(const std::filesystem::path& file);

/// The names in a folder whose endings are in `endings` (".txt"; none: folders), sorted.
std::vector<std::filesystem::path> list_folder(const std::filesystem::path& folder,
                                               std::span<const std::string_view> endings);

}  // namespace tutti::engine
