// The memory map of a process, and to whom the code in it belongs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::doctor {

/// The origin of the code in a mapped file.
enum class Owner : std::uint8_t {
  nobody,       ///< no file
  program,      ///< the program, or a library that is none of those below
  interpreter,  ///< Python itself
  library       ///< libraries of the system, of MPI and of devices, the kernel's page, tutti
};

/// One line of a /proc/PID/maps.
struct Mapping {
  std::uint64_t start = 0, end = 0;
  std::uint64_t offset = 0;  ///< in the file
  bool executable = false;
  std::string path;  ///< "/usr/lib/libc.so.6", "[stack]", or empty
};

/// Parses the text of a /proc/PID/maps, and skips lines that it does not understand. The result ascends.
std::vector<Mapping> parse_maps(std::string_view text);

/// The mapping that holds `address`, or null.
const Mapping* mapping_at(const std::vector<Mapping>& maps, std::uint64_t address) noexcept;

/// The owner of the file at `path`.
Owner owner_of(std::string_view path) noexcept;

/// "train" for "/data/bin/train (deleted)".
std::string file_name(std::string_view path);

}  // namespace tutti::doctor
