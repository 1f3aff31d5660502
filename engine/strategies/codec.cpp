// Makes the compression that the codec axis names.
#include "engine/strategies/makers.hpp"

namespace tutti::engine::exchange {

std::shared_ptr<const nn::Compression> compression_of(const Axes& axes, std::uint64_t seed) {
  using Kind = CodecChoice::Kind;
  const CodecChoice& codec = axes.codec;
  if (axes.merge == Axes::Merge::vote) return nn::encoded_compression(nn::vote_encoding(), 0);
  switch (codec.kind) {
    case Kind::none: return nullptr;
    case Kind::f16: return nn::cast_compression(DType::f16);
    case Kind::bf16: return nn::cast_compression(DType::bf16);
    case Kind::int8: return nn::encoded_compression(nn::int8_encoding(codec.chunk), codec.feedback);
    case Kind::e3m0: return nn::encoded_compression(nn::e3m0_encoding(codec.chunk), codec.feedback);
    case Kind::two_bit: return nn::encoded_compression(nn::two_bit_encoding(codec.chunk), codec.feedback);
    case Kind::sign: return nn::encoded_compression(nn::sign_encoding(codec.chunk), codec.feedback);
    case Kind::top_k:
      if (codec.kept == 0) return nn::top_k_compression(codec.part, codec.feedback);
      return nn::encoded_compression(
          nn::chunk_top_k_encoding(
              {.kept = codec.kept, .chunk = codec.chunk, .two_bit = codec.two_bit_values, .dct = false}),
          codec.feedback);
    case Kind::dct:
      return nn::encoded_compression(
          nn::chunk_top_k_encoding({.kept = codec.kept, .chunk = codec.chunk, .two_bit = false, .dct = true}),
          codec.feedback);
    case Kind::mask:
      return nn::mask_compression({.part = codec.part,
                                   .seed = seed,
                                   .feedback = codec.feedback,
                                   .keep_others = axes.what == Axes::What::parameters});
    case Kind::power_sgd:
      return nn::power_sgd_compression(
          {.rank = codec.rank, .least_saving = codec.least_saving, .feedback = codec.feedback});
  }
  return nullptr;
}

}  // namespace tutti::engine::exchange
