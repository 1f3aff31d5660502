#include "engine/strategies/strategy.hpp"

#include "engine/strategies/makers.hpp"

namespace tutti::engine {

void Strategy::set(std::string_view key, double) {
  refuse("strategy " + traits_.name + " has no number '" + std::string(key) + "' to set");
}

namespace exchange {

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

}  // namespace exchange

std::unique_ptr<Strategy> make_strategy(const Config& config, Replica replica) {
  const Axes axes = axes_of(config);
  if (const std::size_t grains = grains_of(config); grains > 0)
    return exchange::make_grains(grains, std::move(replica));
  if (axes.how == Axes::How::server)
    throw Error(Code::unsupported, "strategy.how=server: train by train_by_masters(), as `tutti train` does");
  if (axes.what == Axes::What::gradients) return exchange::make_gradients(config, axes, std::move(replica));
  if (axes.merge == Axes::Merge::gossip) return exchange::make_gossip(config, axes, std::move(replica));
  if (axes.how == Axes::How::pairs) return exchange::make_pairs(config, axes, std::move(replica));
  if (axes.dense_steps > 0) return exchange::make_dense_first(config, axes, std::move(replica));
  return exchange::make_deltas(config, axes, std::move(replica));
}

}  // namespace tutti::engine
