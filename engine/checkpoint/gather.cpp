// Arrays are sent as bytes: for each array its name, type, shape and elements, with the lengths of name and shape.
#include "engine/checkpoint/gather.hpp"

#include <cstring>

namespace tutti::engine {
namespace {

using Bytes = std::vector<std::uint8_t>;

void put(Bytes& into, const void* from, std::size_t bytes) {
  const auto* const begin = static_cast<const std::uint8_t*>(from);
  into.insert(into.end(), begin, begin + bytes);
}
void put(Bytes& into, std::int64_t number) { put(into, &number, sizeof number); }

Bytes packed(const Fields& arrays) {
  Bytes bytes;
  for (const auto& [name, array] : arrays) {
    put(bytes, static_cast<std::int64_t>(name.size()));
    put(bytes, name.data(), name.size());
    put(bytes, static_cast<std::int64_t>(array.dtype()));
    put(bytes, static_cast<std::int64_t>(array.shape().size()));
    for (const std::int64_t side : array.shape()) put(bytes, side);
    put(bytes, array.bytes().data(), array.byte_count());
  }
  return bytes;
}

class Unpacking {
 public:
  explicit Unpacking(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}

  Fields all() {
    Fields arrays;
    while (!bytes_.empty()) {
      std::string name(static_cast<std::size_t>(number()), '\0');
      take(name.data(), name.size());
      const auto dtype = static_cast<DType>(number());
      ArrayShape shape(static_cast<std::size_t>(number()));
      for (std::int64_t& side : shape) side = number();
      const std::size_t bytes = elements(shape) * size_of(dtype);
      arrays[name] = Array::make(dtype, shape, [&](std::byte* into) { take(into, bytes); });
    }
    return arrays;
  }

 private:
  void take(void* into, std::size_t bytes) {
    if (bytes > 0) std::memcpy(into, bytes_.data(), bytes);
    bytes_ = bytes_.subspan(bytes);
  }
  std::int64_t number() {
    std::int64_t found = 0;
    take(&found, sizeof found);
    return found;
  }
  std::span<const std::uint8_t> bytes_;
};

}  // namespace

std::vector<Fields> gather(Communicator& world, const Fields& mine) {
  const auto size = static_cast<std::size_t>(world.size());
  const Bytes bytes = packed(mine);
  const std::vector<std::int64_t> length{static_cast<std::int64_t>(bytes.size())};
  std::vector<std::int64_t> lengths(size);
  world.allgather(length, lengths).wait();
  const std::vector<std::size_t> counts(lengths.begin(), lengths.end());
  Bytes all;
  if (world.rank() == 0)
    for (const std::size_t each : counts) all.resize(all.size() + each);
  world.gatherv(bytes, all, counts, 0).wait();
  std::vector<Fields> found;
  if (world.rank() != 0) return found;
  std::span<const std::uint8_t> rest(all);
  for (const std::size_t each : counts) {
    found.push_back(Unpacking(rest.first(each)).all());
    rest = rest.subspan(each);
  }
  return found;
}

}  // namespace tutti::engine
