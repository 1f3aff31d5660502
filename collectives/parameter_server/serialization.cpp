// Serialization of open() arguments and settings.
#include "collectives/parameter_server/serialization.hpp"
#include "collectives/parameter_server/sharding.hpp"
#include "transports/core/checked.hpp"

namespace tutti {

std::vector<std::byte> Opening::serialize() const {
  Serializer writer;
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

Opening Opening::read(ConstBytes bytes, std::size_t servers) {
  Deserializer reader(bytes);
  Opening opening;
  opening.name = reader.take_text();
  opening.count = reader.take<std::uint64_t>();
  opening.dtype = reader.take<DType>();
  const bool is_bounded = reader.take<std::uint8_t>() != 0;
  const auto bound = reader.take<std::uint64_t>();
  if (is_bounded) opening.staleness = bound;
  opening.counts = reader.take<std::uint8_t>() != 0;
  if (static_cast<std::size_t>(opening.dtype) >= dtype_count || is_integer(opening.dtype))
    throw Error(Code::invalid, "its elements are not f16, bf16, f32 or f64");
  if (const auto shards = reader.take<std::uint64_t>(); shards != servers)
    throw Error(Code::invalid,
                "it has " + std::to_string(shards) + " shards for " + std::to_string(servers) + " servers");
  if (!checked_product(opening.count, size_of(opening.dtype)))
    throw Error(Code::invalid, std::to_string(opening.count) + " elements are more than an address space holds");
  std::vector<std::size_t> counts;
  std::size_t left = opening.count;
  for (std::size_t i = 0; i < servers; ++i) {
    counts.push_back(reader.take<std::uint64_t>());
    if (counts.back() > left) throw Error(Code::invalid, "its shards have more elements than the buffer");
    left -= counts.back();
  }
  if (left > 0) throw Error(Code::invalid, "its shards have fewer elements than the buffer");
  opening.shards = shards_of(counts);
  return opening;
}

std::vector<std::byte> serialize(const std::map<std::string, std::string>& settings) {
  Serializer writer;
  for (const auto& [name, value] : settings) {
    writer.put_text(name);
    writer.put_text(value);
  }
  return writer.take();
}

std::map<std::string, std::string> read_settings(ConstBytes bytes) {
  Deserializer reader(bytes);
  std::map<std::string, std::string> settings;
  while (!reader.is_at_end()) {
    std::string name = reader.take_text();
    settings[std::move(name)] = reader.take_text();
  }
  return settings;
}

}  // namespace tutti
