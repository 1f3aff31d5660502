#include "engine/strategies/codec_choice.hpp"

#include <charconv>
#include <iterator>
#include <utility>

namespace tutti::engine {
namespace {

/// The names of the codecs, in the order of CodecChoice::Kind.
constexpr std::string_view codec_words[] = {"none", "f16",   "bf16", "int8", "e3m0",     "2bit",
                                            "sign", "top_k", "mask", "dct",  "power_sgd"};

std::string number(double value) {
  char text[32];
  return std::string(text, std::to_chars(text, text + sizeof text, value).ptr);
}

/// Translates the codec names of other trainers to tutti's.
std::string_view codec_name(std::string_view word) {
  constexpr std::pair<std::string_view, std::string_view> same[] = {
      {"topk", "top_k"}, {"powersgd", "power_sgd"}, {"dct_topk", "dct"}, {"true", "int8"}, {"false", "none"}};
  for (const auto& [other, name] : same)
    if (other == word) return name;
  return word;
}

template <class Number>
Number number_in(std::string_view text, std::string_view codec) {
  Number number{};
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || rest != text.data() + text.size() || !(number > 0))
    refuse("strategy.codec=" + std::string(codec) + ": '" + std::string(text) +
           "' is not a number above 0; write int8:64, top_k:2/64, mask:0.005 or power_sgd:2");
  return number;
}

/// Parses "2/64" (the number of values kept of each chunk, and the chunk), or the fraction kept of a whole bucket.
void read_chunk(CodecChoice& codec, std::string_view argument, std::string_view text) {
  const std::size_t slash = argument.find('/');
  if (slash == argument.npos) {
    codec.part = number_in<double>(argument, text);
    return;
  }
  codec.kept = number_in<std::int64_t>(argument.substr(0, slash), text);
  codec.chunk = number_in<std::int64_t>(argument.substr(slash + 1), text);
}

void read_argument(CodecChoice& codec, std::string_view argument, std::string_view text) {
  using Codec = CodecChoice::Kind;
  switch (codec.kind) {
    case Codec::int8:
    case Codec::e3m0:
    case Codec::two_bit:
    case Codec::sign: codec.chunk = number_in<std::int64_t>(argument, text); return;
    case Codec::top_k:
    case Codec::dct: read_chunk(codec, argument, text); return;
    case Codec::mask: codec.part = number_in<double>(argument, text); return;
    case Codec::power_sgd: codec.rank = number_in<std::int64_t>(argument, text); return;
    default: refuse("strategy.codec=" + std::string(text) + ": this codec takes no argument, so leave it out");
  }
}

void check_codec(const CodecChoice& codec, std::string_view text) {
  using Codec = CodecChoice::Kind;
  const auto wrong = [&](const std::string& why) { refuse("strategy.codec=" + std::string(text) + ": " + why); };
  const bool parted = codec.kind == Codec::mask || (codec.kind == Codec::top_k && codec.kept == 0);
  if (parted && !(codec.part > 0 && codec.part <= 1)) wrong("expected a part of the values above 0 and at most 1");
  if (codec.kind == Codec::dct && codec.kept == 0) wrong("say how many of each chunk, as in dct:32/64");
  if (codec.kept > codec.chunk) wrong("a chunk has " + std::to_string(codec.chunk) + " values, so keep at most these");
  if (codec.chunk > 32768) wrong("a chunk has at most 32768 values: make it smaller");
  if (codec.two_bit_values && codec.kept == 0) wrong("two bits are for values of chunks: say top_k:2/64+2bit");
  if (codec.feedback > 1) refuse("strategy.feedback is a part of what was left out: make it at most 1");
}

}  // namespace

CodecChoice parse_codec(std::string_view text, const Options& options) {
  using Codec = CodecChoice::Kind;
  CodecChoice codec;
  codec.feedback = options.number("feedback");
  std::string_view rest = text;
  if (rest.ends_with("+2bit")) {
    codec.two_bit_values = true;
    rest.remove_suffix(5);
  }
  const std::size_t colon = rest.find(':');
  const std::string_view name = codec_name(rest.substr(0, colon));
  std::size_t index = 0;
  for (const std::string_view word : codec_words) {
    if (word == name) break;
    ++index;
  }
  if (index == std::size(codec_words)) {
    std::string known;
    for (const std::string_view word : codec_words) known += (known.empty() ? "" : ", ") + std::string(word);
    refuse("strategy.codec=" + std::string(text) + ": expected one of " + known);
  }
  codec.kind = static_cast<Codec>(index);
  const bool scaled = codec.kind == Codec::int8 || codec.kind == Codec::e3m0 || codec.kind == Codec::two_bit ||
                      codec.kind == Codec::sign;
  if (scaled) codec.chunk = options.whole("chunk");
  if (codec.kind == Codec::top_k) codec.part = options.number("top_k");
  if (codec.kind == Codec::mask) codec.part = options.number("mask");
  if (codec.kind == Codec::power_sgd) {
    codec.rank = options.whole("power_rank");
    codec.least_saving = options.number("least_saving");
  }
  if (codec.two_bit_values && codec.kind != Codec::top_k)
    refuse("strategy.codec=" + std::string(text) + ": +2bit is for top_k:K/CHUNK, so leave it out");
  if (colon != rest.npos) read_argument(codec, rest.substr(colon + 1), text);
  check_codec(codec, text);
  if (codec.kind == Codec::none || codec.kind == Codec::f16 || codec.kind == Codec::bf16) codec.feedback = 0;
  return codec;
}

std::string CodecChoice::describe() const {
  std::string text(codec_words[static_cast<std::size_t>(kind)]);
  if (kept > 0)
    return text + ":" + std::to_string(kept) + "/" + std::to_string(chunk) + (two_bit_values ? "+2bit" : "");
  if (kind == Kind::top_k || kind == Kind::mask) return text + ":" + number(part);
  if (kind == Kind::power_sgd) return text + ":" + std::to_string(rank);
  return chunk > 0 ? text + ":" + std::to_string(chunk) : text;
}

}  // namespace tutti::engine
