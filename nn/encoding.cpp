#include "nn/encoding.hpp"

#include <ATen/Functions.h>

#include <cmath>
#include <numbers>

#include "tutti/status.hpp"

namespace tutti::nn {
namespace {

std::int64_t ceiling(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
std::int64_t rounded(std::int64_t bytes) { return ceiling(bytes, 8) * 8; }
std::int64_t scale_width(std::int64_t width) { return width < 4 ? 4 : width; }

at::ScalarType wide(at::ScalarType type) { return type == at::kDouble ? at::kDouble : at::kFloat; }

/// Packs `per_byte` codes from 0 to base - 1 into each byte.
struct Packing {
  std::int64_t base, per_byte;
  std::int64_t bytes(std::int64_t codes) const { return ceiling(codes, per_byte); }

  void pack(const at::Tensor& codes, const at::Tensor& into) const {
    at::Tensor padded = at::zeros({bytes(codes.numel()) * per_byte}, codes.options());
    padded.narrow(0, 0, codes.numel()).copy_(codes.reshape({-1}));
    padded = padded.view({-1, per_byte});
    at::Tensor packed = padded.select(1, per_byte - 1).clone();
    for (std::int64_t i = per_byte - 2; i >= 0; --i) packed.mul_(base).add_(padded.select(1, i));
    into.copy_(packed);
  }
  at::Tensor unpack(const at::Tensor& from, std::int64_t codes) const {
    at::Tensor rest = from.to(at::kShort);
    const at::Tensor all = at::empty({from.numel(), per_byte}, rest.options());
    for (std::int64_t i = 0; i < per_byte; ++i) {
      all.select(1, i).copy_(rest.remainder(base));
      rest = at::div(rest, base, "floor");
    }
    return all.view({-1}).narrow(0, 0, codes);
  }
};

constexpr Packing nibbles{16, 2}, pairs{4, 4}, trits{3, 5};

/// Values as (chunks, chunk) in f32 or f64, padded with zeros.
at::Tensor in_chunks(const at::Tensor& values, std::int64_t chunk) {
  const at::Tensor all = values.to(wide(values.scalar_type()));
  const std::int64_t rows = ceiling(all.numel(), chunk);
  if (rows * chunk == all.numel()) return all.view({rows, chunk});
  const at::Tensor padded = at::zeros({rows * chunk}, all.options());
  padded.narrow(0, 0, all.numel()).copy_(all);
  return padded.view({rows, chunk});
}

at::Tensor no_zeros(const at::Tensor& scales) { return at::where(scales.eq(0), at::ones_like(scales), scales); }

/// The first bytes of `wire`, the encoded values, as a tensor of `numbers` elements of `type`.
at::Tensor head(const at::Tensor& wire, std::int64_t numbers, at::ScalarType type) {
  return wire.narrow(0, 0, numbers * static_cast<std::int64_t>(c10::elementSize(type))).view(type);
}

/// Wire format: one scale per chunk, then one code per value.
class Scaled : public Encoding {
 public:
  explicit Scaled(std::int64_t chunk) : chunk_(chunk) {
    if (chunk < 1) throw Error(Code::invalid, "a chunk has at least one value");
  }
  std::int64_t bytes(std::int64_t count, std::int64_t width) const override {
    const std::int64_t rows = ceiling(count, chunk_);
    return rounded(rows * scale_width(width) + code_bytes(rows * chunk_));
  }
  void encode(const at::Tensor& values, const at::Tensor& wire) const override {
    const at::Tensor rows = in_chunks(values, chunk_);
    const at::Tensor scales = scales_of(rows);
    const at::Tensor first = head(wire, rows.size(0), rows.scalar_type());
    first.copy_(scales.view({-1}));
    write(rows.div(no_zeros(scales)), wire.narrow(0, first.nbytes(), code_bytes(rows.numel())));
  }
  at::Tensor decode(const at::Tensor& wire, std::int64_t count, at::ScalarType type) const override {
    const std::int64_t rows = ceiling(count, chunk_);
    const at::Tensor scales = head(wire, rows, wide(type));
    const at::Tensor codes = wire.narrow(0, scales.nbytes(), code_bytes(rows * chunk_));
    const at::Tensor values =
        read(codes, rows * chunk_).to(wide(type)).view({rows, chunk_}).mul_(scales.view({rows, 1}));
    return values.view({-1}).narrow(0, 0, count).to(type);
  }
  std::int64_t block() const override { return chunk_; }

 protected:
  virtual std::int64_t code_bytes(std::int64_t codes) const = 0;
  virtual at::Tensor scales_of(const at::Tensor& rows) const { return rows.abs().amax({1}, true); }
  /// `parts` are values divided by their scale; read() returns approximations of them.
  virtual void write(const at::Tensor& parts, const at::Tensor& codes) const = 0;
  virtual at::Tensor read(const at::Tensor& codes, std::int64_t count) const = 0;
  std::string with_chunk(const char* name) const { return name + std::string(":") + std::to_string(chunk_); }

 private:
  const std::int64_t chunk_;
};

class Int8 final : public Scaled {
 public:
  using Scaled::Scaled;
  std::string describe() const override { return with_chunk("int8"); }

 private:
  std::int64_t code_bytes(std::int64_t codes) const override { return codes; }
  at::Tensor scales_of(const at::Tensor& rows) const override { return rows.abs().amax({1}, true).div_(127); }
  void write(const at::Tensor& parts, const at::Tensor& codes) const override {
    codes.view(at::kChar).copy_(parts.round().clamp_(-127, 127).view({-1}));
  }
  at::Tensor read(const at::Tensor& codes, std::int64_t) const override { return codes.view(at::kChar); }
};

class E3m0 final : public Scaled {
 public:
  using Scaled::Scaled;
  std::string describe() const override { return with_chunk("e3m0"); }

 private:
  std::int64_t code_bytes(std::int64_t codes) const override { return nibbles.bytes(codes); }
  void write(const at::Tensor& parts, const at::Tensor& codes) const override {
    std::vector<double> middles{std::ldexp(1.0, -7)};  // between 0 and 1/64
    for (int e = 6; e >= 1; --e) middles.push_back(std::ldexp(1.5, -e));
    const at::Tensor places = at::bucketize(parts.abs(), at::tensor(middles, parts.options()));
    nibbles.pack(places.add_(parts.lt(0).to(at::kLong), 8).to(at::kShort), codes);
  }
  at::Tensor read(const at::Tensor& codes, std::int64_t count) const override {
    std::vector<double> levels{0};
    for (int e = 6; e >= 0; --e) levels.push_back(std::ldexp(1.0, -e));
    for (std::size_t i = 0; i < 8; ++i) levels.push_back(-levels[i]);
    const at::Tensor table = at::tensor(levels, codes.options().dtype(at::kDouble));
    return table.index_select(0, nibbles.unpack(codes, count).to(at::kLong));
  }
};

/// Two bits for a value divided by its scale: its sign, and which of the two levels is its magnitude.
at::Tensor two_bit_codes(const at::Tensor& parts) {
  return parts.abs().gt(2.0 / 3).to(at::kShort).mul_(2).add_(parts.lt(0).to(at::kShort));
}
at::Tensor two_bit_parts(const at::Tensor& codes, at::ScalarType type) {
  const at::Tensor table = at::tensor({1.0 / 3, -1.0 / 3, 1.0, -1.0}, codes.options().dtype(type));
  return table.index_select(0, codes.to(at::kLong));
}

class TwoBit final : public Scaled {
 public:
  using Scaled::Scaled;
  std::string describe() const override { return with_chunk("2bit"); }

 private:
  std::int64_t code_bytes(std::int64_t codes) const override { return pairs.bytes(codes); }
  void write(const at::Tensor& parts, const at::Tensor& codes) const override {
    pairs.pack(two_bit_codes(parts), codes);
  }
  at::Tensor read(const at::Tensor& codes, std::int64_t count) const override {
    return two_bit_parts(pairs.unpack(codes, count), at::kDouble);
  }
};

class Sign final : public Scaled {
 public:
  using Scaled::Scaled;
  std::int64_t block() const override { return 0; }
  std::string describe() const override { return with_chunk("sign"); }

 private:
  std::int64_t code_bytes(std::int64_t codes) const override { return trits.bytes(codes); }
  at::Tensor scales_of(const at::Tensor& rows) const override {
    return rows.abs().sum({1}, true).div_(rows.ne(0).sum({1}, true).clamp_min(1));
  }
  void write(const at::Tensor& parts, const at::Tensor& codes) const override {
    trits.pack(parts.sign().add_(1).to(at::kShort), codes);
  }
  at::Tensor read(const at::Tensor& codes, std::int64_t count) const override {
    return trits.unpack(codes, count).sub_(1);
  }
};

class Vote final : public Encoding {
 public:
  std::int64_t bytes(std::int64_t count, std::int64_t) const override { return rounded(trits.bytes(count)); }
  void encode(const at::Tensor& values, const at::Tensor& wire) const override {
    trits.pack(values.sign().add_(1).to(at::kShort), wire.narrow(0, 0, trits.bytes(values.numel())));
  }
  at::Tensor decode(const at::Tensor& wire, std::int64_t count, at::ScalarType type) const override {
    return trits.unpack(wire.narrow(0, 0, trits.bytes(count)), count).sub_(1).to(type);
  }
  at::Tensor merge(const at::Tensor& wires, std::int64_t count, at::ScalarType type) const override {
    at::Tensor votes = at::zeros({count}, wires.options().dtype(at::kInt));
    for (std::int64_t r = 0; r < wires.size(0); ++r) votes.add_(decode(wires[r], count, at::kInt));
    return votes.sign().to(type);
  }
  std::string describe() const override { return "vote"; }
};

class TopKOfChunks final : public Encoding {
 public:
  explicit TopKOfChunks(const ChunkTopK& options) : options_(options) {
    if (options.kept < 1 || options.kept > options.chunk || options.chunk > 32768)
      throw Error(Code::invalid, "of each chunk of at most 32768 values from 1 up to all are kept");
  }
  std::int64_t bytes(std::int64_t count, std::int64_t width) const override {
    const std::int64_t rows = ceiling(count, options_.chunk), kept = rows * options_.kept, w = scale_width(width);
    const std::int64_t values = options_.two_bit ? rows * w + pairs.bytes(kept) : kept * w;
    return rounded(values + kept * place_bytes());
  }
  void encode(const at::Tensor& values, const at::Tensor& wire) const override {
    at::Tensor rows = in_chunks(values, options_.chunk);
    if (options_.dct) rows = rows.mm(cosines(rows).t());
    const at::Tensor places = std::get<1>(rows.abs().topk(options_.kept, 1));
    const at::Tensor kept = rows.gather(1, places), scales = kept.abs().amax({1}, true);
    const at::Tensor first = options_.two_bit ? scales : kept;
    head(wire, first.numel(), rows.scalar_type()).copy_(first.reshape({-1}));
    const auto at = static_cast<std::int64_t>(first.nbytes());
    const at::Tensor where = wire.narrow(0, at, places.numel() * place_bytes());
    (place_bytes() == 1 ? where : where.view(at::kShort)).copy_(places.reshape({-1}));
    if (options_.two_bit)
      pairs.pack(two_bit_codes(kept.div(no_zeros(scales))),
                 wire.narrow(0, at + places.numel() * place_bytes(), pairs.bytes(places.numel())));
  }
  at::Tensor decode(const at::Tensor& wire, std::int64_t count, at::ScalarType type) const override {
    const Sent sent = read(wire, count, wide(type));
    const at::Tensor rows =
        at::zeros({sent.places.size(0), options_.chunk}, sent.values.options()).scatter_(1, sent.places, sent.values);
    return values_of(rows, count, type);
  }
  at::Tensor merge(const at::Tensor& wires, std::int64_t count, at::ScalarType type) const override {
    if (!options_.dct) return Encoding::merge(wires, count, type);
    const auto options = wires.options().dtype(wide(type));
    const at::Tensor sums = at::zeros({ceiling(count, options_.chunk), options_.chunk}, options);
    const at::Tensor senders = at::zeros_like(sums);
    for (std::int64_t r = 0; r < wires.size(0); ++r) {
      const Sent sent = read(wires[r], count, wide(type));
      sums.scatter_add_(1, sent.places, sent.values);
      senders.scatter_add_(1, sent.places, at::ones_like(sent.values));
    }
    return values_of(sums.div_(senders.clamp_min_(1)), count, type);
  }
  std::string describe() const override {
    return std::string(options_.dct ? "dct:" : "top_k:") + std::to_string(options_.kept) + "/" +
           std::to_string(options_.chunk) + (options_.two_bit ? "+2bit" : "");
  }

 private:
  struct Sent {
    at::Tensor values, places;  // (rows, kept)
  };
  std::int64_t place_bytes() const { return options_.chunk <= 256 ? 1 : 2; }

  Sent read(const at::Tensor& wire, std::int64_t count, at::ScalarType type) const {
    const std::int64_t rows = ceiling(count, options_.chunk), kept = rows * options_.kept;
    const at::Tensor first = head(wire, options_.two_bit ? rows : kept, type);
    const auto at = static_cast<std::int64_t>(first.nbytes());
    const at::Tensor where = wire.narrow(0, at, kept * place_bytes());
    const at::Tensor places = (place_bytes() == 1 ? where : where.view(at::kShort)).to(at::kLong);
    at::Tensor values = first;
    if (options_.two_bit) {
      const at::Tensor codes = wire.narrow(0, at + kept * place_bytes(), pairs.bytes(kept));
      values = two_bit_parts(pairs.unpack(codes, kept), type).view({rows, options_.kept}).mul_(first.view({rows, 1}));
    }
    return {values.view({rows, options_.kept}), places.view({rows, options_.kept})};
  }
  /// The matrix of the DCT-II: row k is the cosine of frequency k.
  at::Tensor cosines(const at::Tensor& like) const {
    const std::int64_t n = options_.chunk;
    const auto wide_options = like.options().dtype(at::kDouble);
    const at::Tensor places = at::arange(n, wide_options).add_(0.5).view({1, n});
    const at::Tensor all =
        at::arange(n, wide_options).view({n, 1}).mul(places).mul_(std::numbers::pi / double(n)).cos_();
    all.mul_(std::sqrt(2.0 / double(n))).select(0, 0).mul_(std::numbers::sqrt2 / 2);
    return all.to(like.scalar_type());
  }
  at::Tensor values_of(const at::Tensor& rows, std::int64_t count, at::ScalarType type) const {
    return (options_.dct ? rows.mm(cosines(rows)) : rows).view({-1}).narrow(0, 0, count).to(type);
  }
  const ChunkTopK options_;
};

}  // namespace

at::Tensor Encoding::merge(const at::Tensor& wires, std::int64_t count, at::ScalarType type) const {
  at::Tensor sum = at::zeros({count}, wires.options().dtype(wide(type)));
  for (std::int64_t r = 0; r < wires.size(0); ++r) sum.add_(decode(wires[r], count, wide(type)));
  return sum.div_(wires.size(0)).to(type);
}

EncodingPtr int8_encoding(std::int64_t chunk) { return std::make_shared<Int8>(chunk); }
EncodingPtr e3m0_encoding(std::int64_t chunk) { return std::make_shared<E3m0>(chunk); }
EncodingPtr two_bit_encoding(std::int64_t chunk) { return std::make_shared<TwoBit>(chunk); }
EncodingPtr sign_encoding(std::int64_t chunk) { return std::make_shared<Sign>(chunk); }
EncodingPtr vote_encoding() { return std::make_shared<Vote>(); }
EncodingPtr chunk_top_k_encoding(const ChunkTopK& options) { return std::make_shared<TopKOfChunks>(options); }

}  // namespace tutti::nn
