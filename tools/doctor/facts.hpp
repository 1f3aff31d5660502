// Numbers that the kernel tells in texts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tutti::tools {

using Number = std::optional<std::uint64_t>;

/// The first line of a file; empty if it cannot be read.
std::string line_of(const std::string& path);
/// The whole file, at most 1 MiB; empty if it cannot be read.
std::string whole_text(const std::string& path);

/// The number at the start of `text`; nothing if there is none, as for "max".
Number number_in(std::string_view text);

/// The bytes of a line of /proc/meminfo: 2048 for the field "MemFree" of "MemFree:   2 kB".
Number memory_field(std::string_view text, std::string_view field);

/// The word in brackets: "madvise" for "always [madvise] never".
std::string chosen_word(std::string_view text);

/// The times in the first line of /proc/stat, in ticks.
struct ProcessorTimes {
  std::uint64_t all = 0, stolen = 0;
};
ProcessorTimes processor_times(std::string_view text);

/// A limit of the control groups of this process, the least up to the root, and the use in the same group.
struct GroupLimit {
  Number most, now;
};

/// `membership` is the text of a /proc/PID/cgroup, `root` usually /sys/fs/cgroup. `controller` is "memory" or "pids".
GroupLimit group_limit(std::string_view membership, const std::string& root, std::string_view controller);

}  // namespace tutti::tools
