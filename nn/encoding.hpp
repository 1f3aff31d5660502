// Encoding: values as fewer bytes, and back. What travels and when is a Compression's business (nn/compression.hpp).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>

namespace tutti::nn {

/// Values are tensors of one dimension, on one device with the wire, which is of type u8. Scales have the values' type,
/// or f32 where that is narrower. Immutable: any thread may call, one at a time for each tensor.
class Encoding {
 public:
  virtual ~Encoding() = default;

  /// Of the wire, for `count` values of `width` bytes each; a multiple of 8.
  virtual std::int64_t bytes(std::int64_t count, std::int64_t width) const = 0;
  virtual void encode(const at::Tensor& values, const at::Tensor& wire) const = 0;
  virtual at::Tensor decode(const at::Tensor& wire, std::int64_t count, at::ScalarType type) const = 0;

  /// One from the wires of all ranks, a row for each, folded in the order of the rows in f32, or f64 for values of
  /// that type: the mean of what they say, unless the encoding has it otherwise.
  virtual at::Tensor merge(const at::Tensor& wires, std::int64_t count, at::ScalarType type) const;

  /// Every value has its place in the wire, so that a mean may be encoded again: values per scale. 0: it may not.
  virtual std::int64_t block() const { return 0; }
  virtual std::string describe() const = 0;
};

using EncodingPtr = std::shared_ptr<const Encoding>;

// Chunks are `chunk` values, the last one maybe fewer; with m the largest magnitude of a chunk, r its number of chunks,
// w the width of a scale. Each says how far a decoded value is off at most, and the bytes before they are rounded up.

/// m / 127 times a whole number, to the nearest, ties to even. Off by m / 254. r w + chunk r.
EncodingPtr int8_encoding(std::int64_t chunk);

/// Four bits: a sign and one of m, m / 2, ..., m / 64, 0. Off by a third of the value, or m / 128. r w + chunk r / 2.
EncodingPtr e3m0_encoding(std::int64_t chunk);

/// Two bits: m, m / 3, -m / 3 or -m. Off by m / 3. r w + chunk r / 4.
EncodingPtr two_bit_encoding(std::int64_t chunk);

/// Signs, of which 0 is one, times the mean magnitude of what is not 0. Off by m. r w + chunk r / 5. It is not encoded
/// again: a mean of signs is not near to signs.
EncodingPtr sign_encoding(std::int64_t chunk);

/// Signs alone, whose merge is the sign of their sum: 0 where they are even. count / 5.
EncodingPtr vote_encoding();

struct ChunkTopK {
  std::int64_t kept = 1, chunk = 64;
  bool two_bit = false;  ///< what is kept travels in two bits, as in two_bit_encoding(), with a scale for each chunk
  bool dct = false;      ///< it is kept of the chunk's cosine transform (DCT-II, orthonormal), as DeMo does
};

/// The `kept` largest of each chunk by magnitude; the others are 0. What is kept is exact unless two_bit. With dct the
/// merge divides each coefficient by the ranks that sent it (DeMo; Peng et al. 2024). r kept (w + i), with i = 1 byte
/// for a place in a chunk of at most 256 values, else 2; two_bit: r (w + kept i) + r kept / 4. Throws Error{invalid}.
EncodingPtr chunk_top_k_encoding(const ChunkTopK& options);

}  // namespace tutti::nn
