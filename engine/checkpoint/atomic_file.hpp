// Files and folders that are there whole or not at all, whenever the process ends.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

namespace tutti::engine {

/// A file under a temporary name beside its own. commit() makes the bytes durable (fsync) and then gives them the name,
/// in one step (rename); a reader sees the earlier file or the new one. Without commit() nothing of it stays. One
/// thread.
class AtomicFile {
 public:
  /// Throws Error{resource} naming the file and the cause, as do write() and commit().
  explicit AtomicFile(std::filesystem::path file);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  void commit();

 private:
  [[noreturn]] void fail(const char* what) const;

  std::filesystem::path file_, temporary_;
  int descriptor_ = -1;
};

/// Makes what was renamed or made in `folder` durable. Throws Error{resource}.
void sync_folder(const std::filesystem::path& folder);

/// Lets the symbolic link `link` point to `target` in one step, whether it was there or not. Throws Error{resource}.
void replace_link(const std::filesystem::path& link, const std::filesystem::path& target);

}  // namespace tutti::engine
