// Files and links that are replaced atomically, even if the process is killed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>

namespace tutti {
class Descriptor;
}

namespace tutti::engine {

/// CRC-32, as in zip and gzip. Returns the checksum of earlier bytes, whose checksum is `before`, followed by `bytes`.
std::uint32_t crc32_of(std::span<const std::byte> bytes, std::uint32_t before = 0) noexcept;

/// The size and the checksum of a file.
struct FileSum {
  std::uint64_t bytes = 0;
  std::uint32_t crc32 = 0;
  bool operator==(const FileSum&) const = default;
};

/// Writes a file under a temporary name beside the final one. commit() makes the bytes durable (fsync) and renames the
/// file, so a reader sees either the old file or the whole new one. Without commit() the destructor removes the
/// temporary file. One thread.
class AtomicFile {
 public:
  /// `mode`: the file's permissions, less those of the umask. Throws Error{resource} with the file's name and the
  /// cause, as do write() and commit().
  explicit AtomicFile(std::filesystem::path file, unsigned mode = 0666);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  FileSum commit();

 private:
  [[noreturn]] void fail(const char* what) const;

  std::filesystem::path file_, temporary_;
  std::unique_ptr<Descriptor> descriptor_;  // null after commit()
  FileSum sum_;
};

/// Makes renames and new entries in `folder` durable (fsync). Throws Error{resource}.
void sync_folder(const std::filesystem::path& folder);

/// Creates or replaces the symbolic link `link` to `target` atomically. A folder named `link` is first renamed. Throws
/// Error{resource}.
void replace_link(const std::filesystem::path& link, const std::filesystem::path& target);

}  // namespace tutti::engine
