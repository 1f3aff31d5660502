// Request: what `tutti bench` and the peers' programs were asked to measure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "transports/core/collective.hpp"
#include "transports/core/settings.hpp"

namespace tutti::bench {

struct Request {
  Kind kind = Kind::allreduce;  ///< send stands for sendrecv: to the next rank, from the previous one
  int ranks = 0;                ///< -np; 0: not said
  std::int64_t first = 8, last = 64 << 20, factor = 2;
  DType dtype = DType::f32;
  Reduction op = sum;
  int root = 0;
  int iterations = 0;  ///< 0: as many as take a tenth of a second, 20 to 2000
  int warmup = 5;
  bool check = true;
  bool touch = true;  ///< between iterations, rewrite the inputs and read the outputs
  std::string format = "human";
  std::string algorithm;
  std::vector<std::string> versus;
  int rounds = 5;
  Settings settings;
};

/// Parses and checks; `program` is for --help. Throws Error{invalid}.
Request parse_request(const std::string& program, const std::vector<std::string>& arguments);

/// One measurement: what is called, on how many elements.
struct Case {
  Kind kind = Kind::allreduce;
  DType dtype = DType::f32;
  Reduction op = sum;
  int root = 0;
  int ranks = 1;
  std::size_t count = 0;  ///< elements, as core/collective.hpp counts for this kind
  bool in_place = false;

  std::size_t in_count() const noexcept;   ///< elements of the largest `in` of a rank
  std::size_t out_count() const noexcept;  ///< and `out`
  std::size_t bytes() const noexcept;      ///< of the larger of the two: the size column
  bool reduces() const noexcept;
  /// Bus bandwidth / algorithm bandwidth, as nccl-tests defines it.
  double bus_factor() const noexcept;
};

/// One out-of-place case for each size asked for, without repetitions.
std::vector<Case> cases(const Request& request, int ranks);

/// "sendrecv" for Kind::send, else the kind's name.
std::string_view collective_name(Kind kind) noexcept;

}  // namespace tutti::bench
