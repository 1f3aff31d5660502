// EventFile: writes scalars to a file that TensorBoard reads.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace tutti::engine {

/// Returns the CRC-32C (Castagnoli) of the bytes, as in iSCSI (RFC 3720).
std::uint32_t crc32c(std::string_view bytes) noexcept;

/// Writes DIR/events.out.tfevents.TIME.HOST, a new file per run. It consists of TFRecords, each with an Event message
/// that contains scalars. For one thread. Throws Error{resource} with the file's name.
class EventFile {
 public:
  /// Pairs of a tag ("held-out/accuracy") and its value.
  using Scalars = std::span<const std::pair<std::string, double>>;

  explicit EventFile(const std::filesystem::path& folder);

  /// Adds the values of a step and flushes the file.
  void add(std::uint64_t step, Scalars scalars);
  /// Adds one value for each step from `first` on, and flushes the file.
  void add(std::uint64_t first, const std::string& tag, std::span<const double> values);

 private:
  void write(const std::string& event);
  void flush();

  std::filesystem::path file_;
  std::ofstream out_;
};

}  // namespace tutti::engine
