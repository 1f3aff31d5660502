// Forecast: what exchanging gradients will cost, from a model of the link between ranks.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace tutti::engine {

/// Of two ranks: a message of n bytes takes latency + n / bytes_per_second.
struct Link {
  double latency = 0;  ///< seconds
  double bytes_per_second = 1;

  /// "20us,10gbit" or "10gbit,20us": a time in s, ms or us, and a rate in gbit, mbit, gb or mb (10^9 or 10^6 bytes) per
  /// second. Throws Error{invalid}.
  static Link parse(std::string_view text);
  std::string text() const;
};

/// Bytes that each rank sends in an allreduce by a ring: 2 (P - 1) / P of the buffer.
double ring_bytes(double bytes, int ranks);
/// Its time: 2 (P - 1) messages one after the other.
double ring_seconds(double bytes, int ranks, const Link& link);

struct Forecast {
  double communication = 0;  ///< seconds of all allreduces of a step
  double exposed = 0;        ///< of these, after backward has ended
};

/// Gradients that leave in buckets while backward runs: each bucket when backward has done its part of the bytes, and
/// when the one before has arrived.
Forecast forecast(std::span<const std::size_t> buckets, int ranks, double backward, const Link& link);

}  // namespace tutti::engine
