// Serialization of open() arguments and settings.
#include "collectives/parameter_server/letters.hpp"
#include "collectives/parameter_server/sharding.hpp"

namespace tutti {

std::vector<std::byte> Opening::letter() const {
  LetterWriter writer;
  writer.put_text(name);
  writer.put(count);
  writer.put(dtype);
  writer.put<std::uint8_t>(staleness.has_value());
  writer.put(staleness.value_or(0));
  writer.put<std::uint8_t>(counts);
  writer.put<std::uint64_t>(shards.size());
  for (const Range& shard : shards) writer.put<std::uint64_t>(shard.count);
  return writer.take();
}

Opening Opening::read(ConstBytes letter) {
  LetterReader reader(letter);
  Opening opening;
  opening.name = reader.take_text();
  opening.count = reader.take<std::uint64_t>();
  opening.dtype = reader.take<DType>();
  const bool is_bounded = reader.take<std::uint8_t>() != 0;
  const auto bound = reader.take<std::uint64_t>();
  if (is_bounded) opening.staleness = bound;
  opening.counts = reader.take<std::uint8_t>() != 0;
  std::vector<std::size_t> counts;
  for (auto left = reader.take<std::uint64_t>(); left > 0; --left) counts.push_back(reader.take<std::uint64_t>());
  opening.shards = shards_of(counts);
  return opening;
}

std::vector<std::byte> letter_of(const std::map<std::string, std::string>& settings) {
  LetterWriter writer;
  for (const auto& [name, value] : settings) {
    writer.put_text(name);
    writer.put_text(value);
  }
  return writer.take();
}

std::map<std::string, std::string> read_settings(ConstBytes letter) {
  LetterReader reader(letter);
  std::map<std::string, std::string> settings;
  while (!reader.is_at_end()) {
    std::string name = reader.take_text();
    settings[std::move(name)] = reader.take_text();
  }
  return settings;
}

}  // namespace tutti
