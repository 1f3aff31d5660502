// Throttle: limits the log lines that strangers can cause.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "tutti/clock.hpp"
#include "tutti/log.hpp"

namespace tutti {

/// Passes five lines, then one line every ten seconds, with the number of lines left out. After a minute without lines
/// it passes five again. One thread at a time.
class Throttle {
 public:
  void log(LogLevel level, std::string_view text, int rank = -1) {
    if (const auto line = pass(text, Clock::now())) tutti::log(level, *line, rank);
  }

  /// The line to log for `text`; nullopt if it is left out.
  std::optional<std::string> pass(std::string_view text, Deadline now) {
    if (now >= forget_) passed_ = 0;
    forget_ = now + std::chrono::minutes(1);
    if (passed_ >= 5 && now < next_) {
      ++left_out_;
      return std::nullopt;
    }
    ++passed_;
    next_ = now + std::chrono::seconds(10);
    const std::uint64_t count = std::exchange(left_out_, 0);
    return std::string(text) + (count > 0 ? " (" + std::to_string(count) + " like this were not logged)" : "");
  }

 private:
  int passed_ = 0;
  std::uint64_t left_out_ = 0;
  Deadline next_{}, forget_{};
};

}  // namespace tutti
