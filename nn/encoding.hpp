// Encoding: converts values to fewer bytes and back. nn/compression.hpp says when they are sent.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>

namespace tutti::nn {

/// Converts tensors of values, with one dimension, to and from tensors of bytes (the wire, dtype u8) on the same
/// device. Scales in the wire have the values' type, or f32 if that is wider. Immutable; any thread may call, but one
/// thread at a time per tensor.
class Encoding {
 public:
  virtual ~Encoding() = default;

  /// Size of the wire for `count` values of `width` bytes each; a multiple of 8.
  virtual std::int64_t bytes(std::int64_t count, std::int64_t width) const = 0;
  virtual void encode(const at::Tensor& values, const at::Tensor& wire) const = 0;
  virtual at::Tensor decode(const at::Tensor& wire, std::int64_t count, at::ScalarType type) const = 0;

  /// Combines the wires of all ranks, one per row, into `count` values. By default this is the mean of the decoded
  /// values, added up in row order in f32 (f64 for values of that type).
  virtual at::Tensor merge(const at::Tensor& wires, std::int64_t count, at::ScalarType type) const;

  /// Values per scale if the result of merge() can be encoded again; 0 if it cannot. Blocks of a multiple of this size
  /// can be encoded independently.
  virtual std::int64_t block() const { return 0; }
  virtual std::string describe() const = 0;
};

using EncodingPtr = std::shared_ptr<const Encoding>;

// Values are encoded in chunks of `chunk` values; the last chunk may be shorter. In the descriptions m is the largest
// magnitude in a chunk, r the number of chunks and w the width of a scale in bytes. Each description states the largest
// error of a decoded value, and the bytes of the wire before they are rounded up.

/// Integer multiples of m / 127, rounded to the nearest, ties to even. Error m / 254; r w + chunk r bytes.
EncodingPtr int8_encoding(std::int64_t chunk);

/// Four bits per value: a sign, and one of m, m / 2, ..., m / 64, 0. Error a third of the value, or m / 128; r w +
/// chunk r / 2 bytes.
EncodingPtr e3m0_encoding(std::int64_t chunk);

/// Two bits per value: m, m / 3, -m / 3 or -m. Error m / 3; r w + chunk r / 4 bytes.
EncodingPtr two_bit_encoding(std::int64_t chunk);

/// The sign of each value (-1, 0 or 1) times the mean magnitude of the chunk's nonzero values. Error m; r w + chunk r /
/// 5 bytes. A mean of signs is not encoded again (block() is 0).
EncodingPtr sign_encoding(std::int64_t chunk);

/// The signs only. merge() returns the sign of the sum of the signs; it is 0 if equally many are positive and negative.
/// count / 5 bytes.
EncodingPtr vote_encoding();

struct ChunkTopK {
  std::int64_t kept = 1, chunk = 64;
  bool two_bit = false;  ///< encode the kept values in two bits, as in two_bit_encoding(), with one scale per chunk
  bool dct = false;  ///< encode the coefficients of the chunk's cosine transform (DCT-II, orthonormal), as DeMo does
};

/// Keeps the `kept` values of each chunk with the largest magnitude; the others become 0. Kept values are exact unless
/// two_bit is set. With dct, merge() divides each coefficient by the number of ranks that sent it (DeMo; Peng et al.
/// 2024). An index takes i = 1 byte in chunks of at most 256 values, else 2: r kept (w + i) bytes, or with two_bit r (w
/// + kept i) + r kept / 4. Throws Error{invalid} unless 1 <= kept <= chunk <= 32768.
EncodingPtr chunk_top_k_encoding(const ChunkTopK& options);

}  // namespace tutti::nn
