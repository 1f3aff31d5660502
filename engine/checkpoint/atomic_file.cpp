// Write under a temporary name, fsync, rename, fsync the folder.
#include "engine/checkpoint/atomic_file.hpp"

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "transports/core/descriptor.hpp"
#include "tutti/status.hpp"

namespace tutti::engine {
namespace {

constexpr std::size_t largest_write = std::size_t{1} << 30;  // write() transfers at most 2 GiB per call on Linux

[[noreturn]] void cannot(const std::filesystem::path& file, const char* what, int number) {
  throw Error(Code::resource, file.string() + ": cannot be " + what + ": " +
                                  std::error_code(number, std::system_category()).message() +
                                  "; what was saved before is still there");
}

}  // namespace

std::uint32_t crc32_of(std::span<const std::byte> bytes, std::uint32_t before) noexcept {
  return static_cast<std::uint32_t>(
      ::crc32_z(before, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size()));
}

AtomicFile::AtomicFile(std::filesystem::path file, unsigned mode)
    : file_(std::move(file)), temporary_(file_.string() + ".tmp" + std::to_string(getpid())) {
  descriptor_ = std::make_unique<Descriptor>(open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode));
  if (!*descriptor_) fail("made");
}

AtomicFile::~AtomicFile() {
  if (!descriptor_) return;
  unlink(temporary_.c_str());
}

void AtomicFile::fail(const char* what) const { cannot(file_, what, errno); }

void AtomicFile::write(std::span<const std::byte> bytes) {
  sum_ = {sum_.bytes + bytes.size(), crc32_of(bytes, sum_.crc32)};
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_->fd(), bytes.data(), std::min(bytes.size(), largest_write));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("written");
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

FileSum AtomicFile::commit() {
  if (fsync(descriptor_->fd()) != 0) fail("written");
  if (rename(temporary_.c_str(), file_.c_str()) != 0) fail("renamed");
  descriptor_.reset();
  sync_folder(file_.has_parent_path() ? file_.parent_path() : ".");
  return sum_;
}

void sync_folder(const std::filesystem::path& folder) {
  const Descriptor descriptor(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!descriptor) cannot(folder, "opened", errno);
  // EINVAL: the file system does not support fsync of folders
  if (fsync(descriptor.fd()) != 0 && errno != EINVAL) cannot(folder, "written", errno);
}

void replace_link(const std::filesystem::path& link, const std::filesystem::path& target) {
  const std::filesystem::path temporary = link.string() + ".tmp" + std::to_string(getpid());
  unlink(temporary.c_str());
  std::error_code ignored;
  const std::filesystem::file_status there = std::filesystem::symlink_status(link, ignored);
  if (std::filesystem::is_directory(there)) std::filesystem::rename(link, temporary.string() + ".before", ignored);
  if (symlink(target.c_str(), temporary.c_str()) != 0 || rename(temporary.c_str(), link.c_str()) != 0) {
    const int number = errno;
    unlink(temporary.c_str());
    cannot(link, "made", number);
  }
  sync_folder(link.parent_path());
}

}  // namespace tutti::engine
