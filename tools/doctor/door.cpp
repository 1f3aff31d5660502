#include "tools/doctor/door.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <sstream>
#include <utility>

#include "collectives/bootstrap/socket.hpp"
#include "transports/addresses.hpp"
#include "tutti/status.hpp"

namespace tutti::tools {
namespace {

constexpr std::size_t longest_line = 8192, most_addresses = 8;

}  // namespace

Door::Door(std::string token)
    : token_(std::move(token)), listener_(sockets::listen_on("", 0)), port_(sockets::port_of(listener_.fd())) {}

void Door::serve() const {
  for (;;) {
    const Descriptor caller(::accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!caller) return;
    static_cast<void>(::send(caller.fd(), token_.data(), token_.size(), MSG_NOSIGNAL));
  }
}

Knock knock(const std::string& address, int port, const std::string& token, Deadline until) {
  Knock result{address, 0, {}, false};
  const auto parsed = Address::parse(address);
  if (!parsed) return {address, 0, "is no address", false};
  sockets::Address there;
  there.size = parsed->socket_address(port, there.bytes);
  const auto begin = Clock::now();
  const Descriptor door = sockets::connect_to(there, until);
  if (!door) {
    result.timed_out = errno == ETIMEDOUT;
    result.why = result.timed_out ? "no answer" : std::strerror(errno);
    return result;
  }
  result.seconds = Seconds(Clock::now() - begin).count();
  std::string seen;
  for (char block[256]; seen.size() < token.size();) {
    if (!sockets::poll_until(door.fd(), POLLIN, until)) break;
    const ssize_t got = ::recv(door.fd(), block, std::min(sizeof block, token.size() - seen.size()), 0);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got <= 0) break;
    seen.append(block, static_cast<std::size_t>(got));
  }
  if (seen != token) result.why = "somebody else answers there";
  return result;
}

std::optional<std::string> LineReader::next() {
  for (;;) {
    if (const std::size_t end = text_.find('\n'); end != text_.npos) {
      std::string line = text_.substr(0, end);
      text_.erase(0, end + 1);
      return line;
    }
    char block[4096];
    const ssize_t got = ended_ ? 0 : ::read(fd_, block, sizeof block);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return std::nullopt;
    if (got <= 0 || text_.size() > longest_line) {
      ended_ = true;
      return std::nullopt;
    }
    text_.append(block, static_cast<std::size_t>(got));
  }
}

double time_of_day() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::vector<std::string> words_of(std::string_view line) {
  std::istringstream in{std::string(line)};
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

std::vector<std::string> outer_addresses(const std::string& iface) {
  std::vector<std::string> found;
  for (const Interface& one : allowed_interfaces(local_interfaces(), iface))
    if (!one.address.loopback() && !one.address.link_local() && found.size() < most_addresses)
      found.push_back(one.address.text());
  return found;
}

}  // namespace tutti::tools
