// Reads text files that others may have written, or have replaced by a pipe or a folder.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <string>
#include <system_error>
#include <vector>

#include "transports/core/descriptor.hpp"
#include "tutti/status.hpp"

namespace tutti {

/// The content of a file, or of a pipe until all writers have closed it. A pipe without a writer is empty: the call
/// does not wait for one. Throws Error{invalid}, with the file's name, if it cannot be read or has more than `most`
/// bytes.
inline std::string read_text(const std::filesystem::path& file, std::size_t most) {
  const auto refuse = [&](const std::string& why) { throw Error(Code::invalid, file.string() + ": " + why); };
  const Descriptor in(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  struct stat about {};
  if (!in || ::fstat(in.fd(), &about) != 0) refuse(std::string("cannot be read: ") + std::strerror(errno));
  if (S_ISDIR(about.st_mode)) refuse("is a folder: expected a file");
  if (S_ISREG(about.st_mode) && static_cast<std::size_t>(about.st_size) > most)
    refuse("has " + std::to_string(about.st_size) + " bytes, more than " + std::to_string(most) +
           ", the limit for files of its kind");
  std::string text;
  char block[1 << 16];
  for (;;) {
    const ssize_t got = ::read(in.fd(), block, sizeof block);
    if (got == 0) return text;
    if (got > 0) {
      text.append(block, static_cast<std::size_t>(got));
      if (text.size() > most)
        refuse("has more than " + std::to_string(most) + " bytes, the limit for files of its kind");
    } else if (errno == EAGAIN) {
      pollfd ready{in.fd(), POLLIN, 0};
      ::poll(&ready, 1, -1);
    } else if (errno != EINTR) {
      refuse(std::string("cannot be read: ") + std::strerror(errno));
    }
  }
}

/// The lines of a file as read_text() returns it, without line ends.
inline std::vector<std::string> read_lines(const std::filesystem::path& file, std::size_t most) {
  std::istringstream in(read_text(file, most));
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

/// As read_lines(); empty if there is no such file.
inline std::vector<std::string> read_lines_if_any(const std::filesystem::path& file, std::size_t most) {
  std::error_code none;
  return std::filesystem::exists(file, none) ? read_lines(file, most) : std::vector<std::string>();
}

}  // namespace tutti
