// Layout of a frame: say (1 byte), subject (4), number (8), size of the text (4), text; little-endian.
#include "tools/run/channel.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "transports/core/printable.hpp"
#include "tutti/status.hpp"

namespace tutti::tools {
namespace {

static_assert(std::endian::native == std::endian::little, "frames are written as they lie in memory");

constexpr std::size_t header_bytes = 17, most_text = 64 << 20;
constexpr std::size_t most_before_greeting = 1 << 20;  // bytes of a login shell's output
constexpr std::size_t longest_greeting = 256;

void make_non_blocking(int fd) { fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK); }

}  // namespace

Reads& reads() noexcept {
  static Reads of_this_process;
  return of_this_process;
}

Channel::Channel(Descriptor in, Descriptor out, std::string greeting)
    : in_(std::move(in)), out_(std::move(out)), greeting_(std::move(greeting)) {
  make_non_blocking(in_.fd());
  if (out_) make_non_blocking(out_.fd());
  if (greeting_.empty()) greeted_ = "";
}

void Channel::greet(std::string_view text) {
  out_text_.append(text);
  flush();
}

void Channel::queue(const Frame& frame) {
  if (!writable_) return;
  char header[header_bytes];
  const auto size = static_cast<std::uint32_t>(frame.text.size());
  header[0] = static_cast<char>(frame.say);
  std::memcpy(header + 1, &frame.subject, 4);
  std::memcpy(header + 5, &frame.number, 8);
  std::memcpy(header + 13, &size, 4);
  out_text_.append({header, header_bytes});
  out_text_.append(frame.text);
}

void Channel::flush() {
  while (writable_ && !out_text_.empty()) {
    const ssize_t n = write(out_fd(), out_text_.view().data(), out_text_.size());
    if (n >= 0)
      out_text_.drop(static_cast<std::size_t>(n));
    else if (errno == EAGAIN)
      return;
    else if (errno != EINTR)
      writable_ = false;
  }
  if (!writable_) out_text_.clear();
}

bool Channel::receive() {
  char block[65536];
  while (!ended_) {
    const ssize_t n = read(in_.fd(), block, sizeof block);
    ++reads().all;
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) {
      ++reads().in_vain;
      return true;
    }
    if (n <= 0) {
      if (!out_) close_output();
      ended_ = true;
      break;
    }
    in_text_.append({block, static_cast<std::size_t>(n)});
    heard_ = Clock::now();
    if (static_cast<std::size_t>(n) < sizeof block) return true;
    if (in_text_.size() > most_text || !greeted_) return true;  // next() must consume some of it first
  }
  return false;
}

/// Searches for the greeting; keeps only the end of other text, in which a greeting may begin.
bool Channel::find_greeting() {
  const std::string_view text = in_text_.view();
  const std::size_t at = text.find(greeting_);
  if (at == std::string_view::npos) {
    const std::size_t surplus = text.size() - std::min(text.size(), greeting_.size() - 1);
    if (discarded_ == 0) printed_ = printable(text, 80);
    discarded_ += surplus;
    if (discarded_ > most_before_greeting)
      throw Error(Code::protocol,
                  "much is printed there, but no agent greets; see what the shell's start-up files print. It begins: " +
                      printed_);
    in_text_.drop(surplus);
    return false;
  }
  const std::size_t newline = text.find('\n', at);
  if (newline == std::string_view::npos) {
    if (text.size() - at > longest_greeting) throw Error(Code::protocol, "an agent's greeting does not end");
    return false;
  }
  greeted_ = printable(text.substr(at + greeting_.size(), newline - at - greeting_.size()), longest_greeting);
  in_text_.drop(newline + 1);
  return true;
}

std::optional<Frame> Channel::next() {
  if (!greeted_ && !find_greeting()) return std::nullopt;
  const std::string_view text = in_text_.view();
  if (text.size() < header_bytes) return std::nullopt;
  std::uint32_t size = 0;
  std::memcpy(&size, text.data() + 13, 4);
  if (size > most_text || static_cast<unsigned char>(text[0]) > static_cast<unsigned char>(last_say))
    throw Error(Code::protocol, "what arrives is not what an agent says");
  if (text.size() - header_bytes < size) return std::nullopt;
  Frame frame;
  frame.say = static_cast<Say>(text[0]);
  std::memcpy(&frame.subject, text.data() + 1, 4);
  std::memcpy(&frame.number, text.data() + 5, 8);
  frame.text = text.substr(header_bytes, size);
  in_text_.drop(header_bytes + size);
  return frame;
}

void Channel::watch(std::vector<pollfd>& entries) const {
  entries.push_back({ended_ ? -1 : in_.fd(), POLLIN, 0});
  entries.push_back({pending() ? out_fd() : -1, POLLOUT, 0});
}

}  // namespace tutti::tools
