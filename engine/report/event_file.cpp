// A TFRecord consists of the length, the length's checksum, the bytes and their checksum; numbers are little-endian.
// The bytes are protocol buffers with these fields: Event: wall_time (1), step (2), file_version (3), summary (5);
// Summary: repeated value (1); Value: tag (1), simple_value (2).
#include "engine/report/event_file.hpp"

#include <array>
#include <bit>
#include <chrono>

#include "transports/core/host.hpp"
#include "transports/core/varint.hpp"
#include "tutti/status.hpp"

namespace tutti::engine {
namespace {

constexpr std::array<std::uint32_t, 256> table = [] {
  std::array<std::uint32_t, 256> made{};
  for (std::uint32_t i = 0; i < made.size(); ++i) {
    std::uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ (value & 1 ? 0x82f63b78U : 0U);
    made[i] = value;
  }
  return made;
}();

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

template <class Number>
std::string little_endian(Number number) {
  std::string bytes;
  for (std::size_t i = 0; i < sizeof number; ++i) bytes += static_cast<char>(number >> (8 * i));
  return bytes;
}

std::string masked_checksum(std::string_view bytes) {
  return little_endian<std::uint32_t>(std::rotr(crc32c(bytes), 15) + 0xa282ead8U);
}

/// Encodes the fields of a protocol buffer.
class Message {
 public:
  Message& number(int field, std::uint64_t value) {
    bytes_ += static_cast<char>(field << 3);
    put_varint(bytes_, value);
    return *this;
  }
  Message& real(int field, double value) {
    bytes_ += static_cast<char>(field << 3 | 1);
    bytes_ += little_endian(std::bit_cast<std::uint64_t>(value));
    return *this;
  }
  Message& single(int field, float value) {
    bytes_ += static_cast<char>(field << 3 | 5);
    bytes_ += little_endian(std::bit_cast<std::uint32_t>(value));
    return *this;
  }
  Message& text(int field, std::string_view value) {
    bytes_ += static_cast<char>(field << 3 | 2);
    put_varint(bytes_, value.size());
    bytes_ += value;
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

Message event(std::uint64_t step) { return Message().real(1, seconds_since_1970()).number(2, step); }

Message value(const std::string& tag, double number) {
  return Message().text(1, tag).single(2, static_cast<float>(number));
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) noexcept {
  std::uint32_t sum = ~0U;
  for (const char byte : bytes) sum = (sum >> 8) ^ table[(sum ^ static_cast<unsigned char>(byte)) & 0xff];
  return ~sum;
}

EventFile::EventFile(const std::filesystem::path& folder) {
  const auto now = static_cast<std::uint64_t>(seconds_since_1970());
  for (std::uint64_t time = now; file_.empty() || std::filesystem::exists(file_); ++time)
    file_ = folder / ("events.out.tfevents." + std::to_string(time) + "." + host_name());
  out_.open(file_, std::ios::binary);
  write(Message().real(1, seconds_since_1970()).text(3, "brain.Event:2").bytes());
  flush();
}

void EventFile::write(const std::string& event) {
  const std::string length = little_endian<std::uint64_t>(event.size());
  out_ << length << masked_checksum(length) << event << masked_checksum(event);
}

void EventFile::flush() {
  out_.flush();
  if (!out_) throw Error(Code::resource, file_.string() + ": cannot be written");
}

void EventFile::add(std::uint64_t step, Scalars scalars) {
  Message summary;
  for (const auto& [tag, number] : scalars) summary.text(1, value(tag, number).bytes());
  write(event(step).text(5, summary.bytes()).bytes());
  flush();
}

void EventFile::add(std::uint64_t first, const std::string& tag, std::span<const double> values) {
  for (const double number : values)
    write(event(first++).text(5, Message().text(1, value(tag, number).bytes()).bytes()).bytes());
  flush();
}

}  // namespace tutti::engine
