// CodecChoice: the axis that says how values travel. Plain text, without LibTorch.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "engine/options.hpp"

namespace tutti::engine {

/// How values travel, as in "int8", "top_k:2/64+2bit" or "mask:0.005". Names and errors are those of nn/encoding.hpp
/// and nn/compression.hpp.
struct CodecChoice {
  enum class Kind : std::uint8_t { none, f16, bf16, int8, e3m0, two_bit, sign, top_k, mask, dct, power_sgd };
  Kind kind = Kind::none;
  double part = 0;              ///< top_k of a whole bucket, mask: of the values
  std::int64_t chunk = 0;       ///< values that share a scale, or that the largest are taken from; 0: a whole bucket
  std::int64_t kept = 0;        ///< top_k, dct: of each chunk
  bool two_bit_values = false;  ///< top_k: what is kept travels in two bits a value
  std::int64_t rank = 0;        ///< power_sgd
  double least_saving = 1;      ///< power_sgd
  double feedback = 0;          ///< of what was left out, the part that is added the next time

  bool operator==(const CodecChoice&) const = default;
  std::string describe() const;  ///< as parse_codec() takes it
};

/// "top_k:2/64+2bit" and the numbers that it leaves out. Throws Error{invalid}.
CodecChoice parse_codec(std::string_view text, const Options& options);

}  // namespace tutti::engine
