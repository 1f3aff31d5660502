// CodecChoice: the axis that says how values are compressed for an exchange. Without LibTorch.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "engine/config/options.hpp"

namespace tutti::engine {

/// A compression such as "int8", "top_k:2/64+2bit" or "mask:0.005". Its names are those of nn/encoding.hpp and
/// nn/compression.hpp.
struct CodecChoice {
  enum class Kind : std::uint8_t { none, f16, bf16, int8, e3m0, two_bit, sign, top_k, mask, dct, power_sgd };
  Kind kind = Kind::none;
  double part = 0;              ///< mask, top_k without chunks: the fraction of the values that is sent
  std::int64_t chunk = 0;       ///< values that share a scale, or among which the largest are sent; 0: a whole bucket
  std::int64_t kept = 0;        ///< top_k, dct: values sent from each chunk
  bool two_bit_values = false;  ///< top_k: sends each value in two bits
  std::int64_t rank = 0;        ///< power_sgd
  double least_saving = 1;      ///< power_sgd
  double feedback = 0;          ///< error feedback: the fraction of the residual that is added to the next exchange

  bool operator==(const CodecChoice&) const = default;
  std::string describe() const;  ///< the text that parse_codec() reads
};

/// Parses a text such as "top_k:2/64+2bit". Takes numbers that the text omits from `options`. Throws Error{invalid}.
CodecChoice parse_codec(std::string_view text, const Options& options);

}  // namespace tutti::engine
