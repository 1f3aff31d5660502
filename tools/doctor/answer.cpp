// The side of `tutti doctor --host` that it starts on another host. It is told by lines on stdin what to do:
//   listen TOKEN [IFACE]      answers: listening PORT RANGE TIME ADDRESS...
//   knock PORT ADDRESS...     answers, for each address: reached ADDRESS SECONDS, or: blocked ADDRESS LATE WHY...;
//   then: done
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <memory>

#include "tools/command.hpp"
#include "tools/doctor/between.hpp"
#include "tools/doctor/door.hpp"
#include "tools/doctor/facts.hpp"
#include "tools/doctor/host_checks.hpp"
#include "transports/core/host.hpp"
#include "tutti/settings.hpp"
#include "tutti/status.hpp"

namespace tutti::tools {
namespace {

constexpr Seconds patience_with_asker(120);

void say(const std::string& line) {
  fmt::print("{}\n", line);
  std::fflush(stdout);
}

void listen_for(const std::vector<std::string>& words, std::unique_ptr<Door>& door) {
  door = std::make_unique<Door>(words.at(1));
  std::string range = line_of("/proc/sys/net/ipv4/ip_local_port_range");
  std::ranges::replace_if(
      range, [](char c) { return c == ' ' || c == '\t'; }, '-');
  std::string line = fmt::format("listening {} {} {:.6f}", door->port(), range.empty() ? "-" : range, time_of_day());
  for (const std::string& address : outer_addresses(words.size() > 2 ? words[2] : "")) line += " " + address;
  say(line);
}

void knock_at(const std::vector<std::string>& words, const std::string& token) {
  int port = 0;
  std::from_chars(words.at(1).data(), words[1].data() + words[1].size(), port);
  for (std::size_t i = 2; i < words.size(); ++i) {
    const Knock one = knock(words[i], port, token, deadline_in(patience_of_knock));
    if (one.why.empty())
      say(fmt::format("reached {} {:.6f}", one.address, one.seconds));
    else
      say(fmt::format("blocked {} {} {}", one.address, one.timed_out ? 1 : 0, one.why));
  }
  say("done");
}

}  // namespace

int answer_host_check() {
  say(fmt::format("{} {} {}", answer_greeting, version(), host_identity({})));
  ::fcntl(STDIN_FILENO, F_SETFL, ::fcntl(STDIN_FILENO, F_GETFL) | O_NONBLOCK);
  LineReader input(STDIN_FILENO);
  std::unique_ptr<Door> door;
  std::string token;
  for (const Deadline until = deadline_in(patience_with_asker); !input.ended() && Clock::now() < until;) {
    pollfd ready[] = {{STDIN_FILENO, POLLIN, 0}, {door ? door->fd() : -1, POLLIN, 0}};
    ::poll(ready, 2, 1000);
    if (door) door->serve();
    while (const auto line = input.next()) {
      const std::vector<std::string> words = words_of(*line);
      if (words.size() >= 2 && words[0] == "listen") {
        token = words[1];
        listen_for(words, door);
      } else if (words.size() >= 2 && words[0] == "knock") {
        knock_at(words, token);
      }
    }
  }
  return 0;
}

}  // namespace tutti::tools
