// EventFile: scalars in a file that TensorBoard reads.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace tutti::engine {

/// The Castagnoli polynomial's checksum, as iSCSI has it (RFC 3720).
std::uint32_t crc32c(std::string_view bytes) noexcept;

/// DIR/events.out.tfevents.TIME.HOST, a new one for each run: records of TensorFlow's record format, each a message
/// Event with scalars. One thread. Errors are Error{resource} naming the file.
class EventFile {
 public:
  /// Tags such as "held-out/accuracy", and their values.
  using Scalars = std::span<const std::pair<std::string, double>>;

  explicit EventFile(const std::filesystem::path& folder);

  /// Values of a step; they are in the file when this returns.
  void add(std::uint64_t step, Scalars scalars);
  /// One value for each of the steps from `first` on.
  void add(std::uint64_t first, const std::string& tag, std::span<const double> values);

 private:
  void write(const std::string& event);
  void flush();

  std::filesystem::path file_;
  std::ofstream out_;
};

}  // namespace tutti::engine
