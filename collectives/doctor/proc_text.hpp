// Reads what /proc says about a process; an answer that is refused is empty, never an error.
#pragma once

#include <fcntl.h>
#include <limits.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <string>
#include <string_view>

#include "transports/core/descriptor.hpp"

namespace tutti::doctor {

/// The path of a file of process `pid`: "/proc/71/maps".
inline std::string proc_path(pid_t pid, std::string_view file) {
  return "/proc/" + std::to_string(pid) + "/" + std::string(file);
}

/// The first `most` bytes of a file; empty if it cannot be read. `error` is then the errno.
inline std::string text_of(const std::string& path, std::size_t most, int* error = nullptr) {
  std::string text;
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY));
  if (!file && error != nullptr) *error = errno;
  char block[1 << 14];
  while (file && text.size() < most) {
    const ssize_t got = ::read(file.fd(), block, sizeof block);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && error != nullptr) *error = errno;
    if (got <= 0) break;
    text.append(block, static_cast<std::size_t>(got));
  }
  if (text.size() > most) text.resize(most);
  return text;
}

/// Where a symbolic link leads; empty if it cannot be read.
inline std::string link_of(const std::string& path) {
  char text[PATH_MAX];
  const ssize_t length = ::readlink(path.c_str(), text, sizeof text);
  return length > 0 ? std::string(text, static_cast<std::size_t>(length)) : std::string();
}

/// The part of a path after its last slash.
inline std::string_view base_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

}  // namespace tutti::doctor
