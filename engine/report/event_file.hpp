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

/// CRC-32C (Castagnoli), as in iSCSI (RFC 3720).
std::uint32_t crc32c(std::string_view bytes) noexcept;

/// DIR/events.out.tfevents.TIME.HOST, a new file per run: TFRecords, each with an Event message that contains scalars.
/// One thread. Throws Error{resource} with the file's name.
class EventFile {
 public:
  /// Tags ("held-out/accuracy") with their values.
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
