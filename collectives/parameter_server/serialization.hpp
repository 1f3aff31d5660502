// Serialization of values in the payloads of requests, the texts of replies, and dumps.
#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <type_traits>
#include <vector>

#include "tutti/parameter_server.hpp"

namespace tutti {

/// Serializes values one after the other, without padding.
class Serializer {
 public:
  template <class T>
  requires std::is_trivially_copyable_v<T>
  void put(const T& value) { append(ConstBytes(reinterpret_cast<const std::byte*>(&value), sizeof value)); }
  void put_text(std::string_view text) { put_bytes(std::as_bytes(std::span(text))); }
  void put_bytes(ConstBytes some) {
    put<std::uint64_t>(some.size());
    append(some);
  }
  const std::vector<std::byte>& bytes() const noexcept { return bytes_; }
  std::vector<std::byte> take() noexcept { return std::move(bytes_); }

 private:
  void append(ConstBytes some) { bytes_.insert(bytes_.end(), some.begin(), some.end()); }
  std::vector<std::byte> bytes_;
};

/// Reads values back in the same order. Does not own the bytes; the result of take_bytes() points into them. Throws
/// Error{protocol} if there are too few bytes.
class Deserializer {
 public:
  explicit Deserializer(ConstBytes bytes) : rest_(bytes) {}
  template <class T>
  requires std::is_trivially_copyable_v<T> T take() {
    T value;
    std::memcpy(&value, next(sizeof value).data(), sizeof value);
    return value;
  }
  ConstBytes take_bytes() { return next(take<std::uint64_t>()); }
  std::string take_text() {
    const ConstBytes text = take_bytes();
    return {reinterpret_cast<const char*>(text.data()), text.size()};
  }
  bool is_at_end() const noexcept { return rest_.empty(); }

 private:
  ConstBytes next(std::size_t bytes) {
    if (bytes > rest_.size()) throw Error(Code::protocol, "parameter server: a message is cut short");
    const ConstBytes taken = rest_.first(bytes);
    rest_ = rest_.subspan(bytes);
    return taken;
  }
  ConstBytes rest_;
};

/// The arguments of ParameterServer::open().
struct Opening {
  std::string name;
  std::uint64_t count = 0;
  DType dtype = DType::f32;
  std::optional<std::uint64_t> staleness;
  std::vector<Range> shards;
  bool counts = true;
  bool operator==(const Opening&) const = default;

  std::vector<std::byte> serialize() const;
  /// Throws Error{protocol} or Error{invalid} unless the bytes describe a buffer with floating-point elements, one
  /// shard for each of `servers` servers, and a size that fits into the address space.
  static Opening read(ConstBytes bytes, std::size_t servers);
};

std::vector<std::byte> serialize(const std::map<std::string, std::string>& settings);
std::map<std::string, std::string> read_settings(ConstBytes bytes);

}  // namespace tutti
