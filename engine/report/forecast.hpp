// Forecast: predicts the time of gradient averaging from a model of the network.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace tutti::engine {

/// The alpha-beta model of the link between two ranks: a message of n bytes takes latency + n / bytes_per_second.
struct Link {
  double latency = 0;  ///< in seconds
  double bytes_per_second = 1;

  /// Parses "20us,10gbit" or "10gbit,20us": a time in s, ms or us, and a rate in gbit, mbit, gb or mb per second (10^9
  /// or 10^6 bits or bytes). Throws Error{invalid}.
  static Link parse(std::string_view text);
  std::string text() const;
};

/// Bytes that each rank sends in a ring allreduce: 2 (P - 1) / P of the buffer.
double ring_bytes(double bytes, int ranks);
/// The time of a ring allreduce: 2 (P - 1) consecutive messages.
double ring_seconds(double bytes, int ranks, const Link& link);

struct Forecast {
  double communication = 0;  ///< seconds of all allreduces of a step
  double exposed = 0;        ///< of these, seconds after the end of backward
};

/// Buckets are sent in order while backward runs for `backward` seconds: each when backward has computed its share of
/// the bytes and the previous bucket is done.
Forecast forecast(std::span<const std::size_t> buckets, int ranks, double backward, const Link& link);

}  // namespace tutti::engine
