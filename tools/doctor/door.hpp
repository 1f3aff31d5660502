// What two hosts need to test TCP between them: a door that shows a token, a knock at one, and lines of text.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "transports/core/descriptor.hpp"
#include "tutti/clock.hpp"

namespace tutti::tools {

/// Listens at a free port of all interfaces, and sends `token` to everyone who connects.
class Door {
 public:
  /// Throws Error{resource}.
  explicit Door(std::string token);
  int fd() const noexcept { return listener_.fd(); }
  int port() const noexcept { return port_; }
  /// Serves those who have connected; does not wait.
  void serve() const;

 private:
  std::string token_;
  Descriptor listener_;
  int port_;
};

/// The result of knocking at one address.
struct Knock {
  std::string address;
  double seconds = 0;  ///< how long the connection took
  std::string why;     ///< why it failed, as a clause; empty: it worked
  bool timed_out = false;
};

/// Connects to a door, and checks that it shows `token`. The port of another program, or of another host with the same
/// address, has none.
Knock knock(const std::string& address, int port, const std::string& token, Deadline until);

/// Reads lines from a descriptor that does not block.
class LineReader {
 public:
  explicit LineReader(int fd) : fd_(fd) {}
  /// The next line; nothing if it has not arrived, or at the end.
  std::optional<std::string> next();
  bool ended() const noexcept { return ended_; }

 private:
  int fd_;
  bool ended_ = false;
  std::string text_;
};

/// Seconds since 1970.
double time_of_day();

/// The words of a line.
std::vector<std::string> words_of(std::string_view line);

/// Addresses of this host that `iface` allows and other hosts can reach, at most eight. Throws Error{invalid}.
std::vector<std::string> outer_addresses(const std::string& iface);

/// The start of the first line of the answering side; its version and the identity of its host follow.
inline constexpr std::string_view answer_greeting = "tutti-host-check";

}  // namespace tutti::tools
