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

/// Returns the bytes that each rank sends in a ring allreduce: 2 (P - 1) / P of the buffer.
double ring_bytes(double bytes, int ranks);
/// Returns the seconds that a ring allreduce takes: those of 2 (P - 1) messages, one after the other.
double ring_seconds(double bytes, int ranks, const Link& link);

struct Forecast {
  double communication = 0;  ///< seconds that all allreduces of a step take
  double exposed = 0;        ///< the part of these seconds that lies after the end of backward
};

/// Predicts a step whose backward takes `backward` seconds. Buckets are reduced in order: each one starts when backward
/// has computed its share of the bytes and the previous bucket is complete.
Forecast forecast(std::span<const std::size_t> buckets, int ranks, double backward, const Link& link);

}  // namespace tutti::engine
