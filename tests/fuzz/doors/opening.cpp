// Payloads for a parameter server: opening a buffer, settings for a worker that joins, and the dump of a shard.
#include "collectives/parameter_server/serialization.hpp"
#include "collectives/parameter_server/shard.hpp"
#include "tests/fuzz/door.hpp"

namespace tutti::fuzz {
namespace {

bool is_dump(ConstBytes bytes) {
  static const ServerRule add{.apply = [](const ShardView&, std::span<const Pushed>) {}, .slots = 1, .scalars = 1};
  return !refuses([&] {
    Shard shard({.server = 0, .range = {0, 16}, .dtype = DType::f32});
    Deserializer reader(bytes);
    shard.restore(reader, [](const std::string& name) -> const ServerRule& {
      if (name.size() < 8) return add;
      throw Error(Code::invalid, "there is no rule '" + name + "'");
    });
    Serializer again;
    shard.save(again);
  });
}

bool is_opening(ConstBytes bytes) {
  return !refuses([&] {
    const Opening opening = Opening::read(bytes, 2);
    expect(opening.shards.size() == 2, "a server without a shard");
    for (const Range& shard : opening.shards)
      expect(shard.count <= opening.count && shard.offset <= opening.count - shard.count, "a shard beyond its buffer");
  });
}

}  // namespace

bool take(Input input) {
  const ConstBytes bytes = std::as_bytes(input);
  const bool are_settings = !refuses([&] { read_settings(bytes); });
  const bool dump = is_dump(bytes);
  return is_opening(bytes) || dump || are_settings;
}

}  // namespace tutti::fuzz
