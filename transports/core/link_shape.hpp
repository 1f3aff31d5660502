// LinkShape: an emulated latency and bandwidth for a link between ranks.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

namespace tutti {

struct LinkShape {
  double bits_per_second = 0;           ///< in each direction; 0: unlimited
  std::chrono::nanoseconds latency{0};  ///< one way

  bool operator==(const LinkShape&) const = default;
};

/// "50mbit,20ms", "20ms", "1gbit": a rate in bit, kbit, mbit, gbit or tbit per second, a one-way latency in ns, us, ms
/// or s, or both in any order, as tc writes them. Throws Error{invalid}.
LinkShape parse_link_shape(std::string_view text);

/// The text form that parse_link_shape() accepts.
std::string to_string(const LinkShape& shape);

}  // namespace tutti
