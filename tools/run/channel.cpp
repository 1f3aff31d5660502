// Layout of a frame: say (1 byte), subject (4), number (8), size of the text (4), text; little-endian.
#include "tools/run/channel.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstring>

#include "tutti/status.hpp"

namespace tutti::tools {
namespace {

static_assert(std::endian::native == std::endian::little, "frames are written as they lie in memory");

constexpr std::size_t header_bytes = 17, most_text = 64 << 20;

void make_non_blocking(int fd) { fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK); }

}  // namespace

Channel::Channel(Descriptor in, Descriptor out, std::string greeting)
    : in_(std::move(in)), out_(std::move(out)), greeting_(std::move(greeting)) {
  make_non_blocking(in_.fd());
  make_non_blocking(out_.fd());
  if (greeting_.empty()) greeted_ = "";
}

void Channel::greet(std::string_view text) {
  out_text_ += text;
  flush();
}

void Channel::say(const Frame& frame) {
  if (!out_) return;
  char header[header_bytes];
  const auto size = static_cast<std::uint32_t>(frame.text.size());
  header[0] = static_cast<char>(frame.say);
  std::memcpy(header + 1, &frame.subject, 4);
  std::memcpy(header + 5, &frame.number, 8);
  std::memcpy(header + 13, &size, 4);
  out_text_.append(header, header_bytes).append(frame.text);
  flush();
}

void Channel::flush() {
  std::size_t done = 0;
  while (out_ && done < out_text_.size()) {
    const ssize_t n = write(out_.fd(), out_text_.data() + done, out_text_.size() - done);
    if (n >= 0) {
      done += static_cast<std::size_t>(n);
    } else if (errno == EAGAIN) {
      break;
    } else if (errno != EINTR) {
      out_.reset();
    }
  }
  out_text_.erase(0, out_ ? done : out_text_.size());
}

bool Channel::receive() {
  char block[65536];
  while (in_) {
    const ssize_t n = read(in_.fd(), block, sizeof block);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return true;
    if (n <= 0) {
      in_.reset();
      break;
    }
    in_text_.append(block, static_cast<std::size_t>(n));
    heard_ = Clock::now();
    if (static_cast<std::size_t>(n) < sizeof block) return true;
    if (in_text_.size() - in_done_ > most_text) return true;  // next() first has to consume some of it
  }
  return false;
}

bool Channel::find_greeting() {
  const std::size_t at = in_text_.find(greeting_);
  const std::size_t newline = at == std::string::npos ? at : in_text_.find('\n', at);
  if (newline == std::string::npos) return false;
  greeted_ = in_text_.substr(at + greeting_.size(), newline - at - greeting_.size());
  in_done_ = newline + 1;
  return true;
}

std::optional<Frame> Channel::next() {
  if (!greeted_ && !find_greeting()) return std::nullopt;
  const std::size_t there = in_text_.size() - in_done_;
  const char* const at = in_text_.data() + in_done_;
  std::uint32_t size = 0;
  if (there >= header_bytes) std::memcpy(&size, at + 13, 4);
  if (there < header_bytes || there - header_bytes < size) {
    in_text_.erase(0, in_done_);
    in_done_ = 0;
    if (size > most_text) throw Error(Code::protocol, "what arrives is not what an agent says");
    return std::nullopt;
  }
  Frame frame;
  frame.say = static_cast<Say>(at[0]);
  std::memcpy(&frame.subject, at + 1, 4);
  std::memcpy(&frame.number, at + 5, 8);
  frame.text.assign(at + header_bytes, size);
  in_done_ += header_bytes + size;
  return frame;
}

void Channel::watch(std::vector<pollfd>& entries) const {
  entries.push_back({in_.fd(), POLLIN, 0});
  entries.push_back({pending() ? out_.fd() : -1, POLLOUT, 0});
}

}  // namespace tutti::tools
