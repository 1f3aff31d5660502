#include "engine/loop/committed.hpp"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "engine/data/range.hpp"
#include "tutti/status.hpp"

namespace tutti::engine {
namespace {

using Json = nlohmann::json;

constexpr const char* of_others = "the state of the other ranks";  // its name in errors

/// A state as it is sent: a description, with the shapes of its tensors, and the bytes of all tensors one after the
/// other.
struct Packed {
  std::string head;
  std::vector<std::byte> bytes;
};

std::string head_of(const Committed& one) {
  Json files = Json::array();
  for (const auto& [file, fields] : one.tensors)
    for (const auto& [name, array] : fields)
      files.push_back(
          {{"file", file}, {"name", name}, {"dtype", static_cast<int>(array.dtype())}, {"shape", array.shape()}});
  return Json{{"number", one.number}, {"state", one.state.json()},  {"run", one.run},  {"batch", one.batch},
              {"ranks", one.ranks},   {"is_shared", one.is_shared}, {"tensors", files}}
      .dump();
}

std::vector<std::byte> bytes_of(const Committed& one) {
  std::size_t total = 0;
  for (const auto& [file, fields] : one.tensors)
    for (const auto& [name, array] : fields) total += array.byte_count();
  std::vector<std::byte> found;
  found.reserve(total);
  for (const auto& [file, fields] : one.tensors)
    for (const auto& [name, array] : fields) {
      const auto bytes = array.bytes();
      found.insert(found.end(), bytes.begin(), bytes.end());
    }
  return found;
}

Committed unpacked(const Packed& from) {
  const Json all = Json::parse(from.head);
  Committed found{.number = all.at("number").get<std::int64_t>(),
                  .state = RunState::parse(all.at("state").get<std::string>(), of_others),
                  .run = all.at("run").get<std::string>(),
                  .batch = all.at("batch").get<std::int64_t>(),
                  .ranks = all.at("ranks").get<int>(),
                  .is_shared = all.at("is_shared").get<bool>()};
  std::size_t at = 0;
  for (const Json& each : all.at("tensors")) {
    const auto dtype = static_cast<DType>(each.at("dtype").get<int>());
    const auto shape = each.at("shape").get<ArrayShape>();
    const std::size_t bytes = elements(shape) * size_of(dtype);
    if (bytes > from.bytes.size() - at)
      throw Error(Code::protocol, "the state of a run that another rank sends has too few bytes");
    found.tensors[each.at("file").get<std::string>()][each.at("name").get<std::string>()] =
        Array::make(dtype, shape, [&](std::byte* into) { std::memcpy(into, from.bytes.data() + at, bytes); });
    at += bytes;
  }
  return found;
}

/// The ranks with the number `newest`, and the others.
struct Sides {
  std::vector<int> donors, receivers;
};

/// Sends this rank's part of the bytes to each receiver, or receives the parts of all donors.
void move(Communicator& world, const Sides& sides, bool is_shared, std::vector<std::byte>& bytes) {
  const int donors = static_cast<int>(sides.donors.size());
  const auto part = [&](int donor, int receiver) {
    const Range range = is_shared                    ? share(bytes.size(), donor, donors)
                        : receiver % donors == donor ? Range{0, bytes.size()}
                                                     : Range{};
    return Buffer(bytes.data() + range.begin, range.count, DType::u8);
  };
  std::vector<Work> all;
  for (int donor = 0; donor < donors; ++donor) {
    for (int receiver = 0; receiver < static_cast<int>(sides.receivers.size()); ++receiver) {
      const int from = sides.donors[static_cast<std::size_t>(donor)];
      const int to = sides.receivers[static_cast<std::size_t>(receiver)];
      if (world.rank() == from) all.push_back(world.send(part(donor, receiver), to));
      if (world.rank() == to) all.push_back(world.recv(part(donor, receiver), from));
    }
  }
  for (const Work& one : all) one.wait();
}

}  // namespace

Committed share_newest(Communicator& world, Committed mine) {
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(world.size()));
  world.allgather(ConstBuffer(&mine.number, 1, DType::i64), Buffer(numbers.data(), numbers.size(), DType::i64)).wait();
  const std::int64_t newest = std::ranges::max(numbers);
  if (newest < 0) return {};
  Sides sides;
  for (int rank = 0; rank < world.size(); ++rank)
    (numbers[static_cast<std::size_t>(rank)] == newest ? sides.donors : sides.receivers).push_back(rank);
  if (sides.receivers.empty()) return mine;
  const bool gives = mine.number == newest;
  Packed all;
  if (gives) all.bytes = bytes_of(mine);
  if (world.rank() == sides.donors.front()) all.head = head_of(mine);
  std::vector<std::uint64_t> sizes{all.head.size(), all.bytes.size(), mine.is_shared ? 1u : 0u};
  world.broadcast(Buffer(sizes.data(), sizes.size(), DType::i64), sides.donors.front()).wait();
  all.head.resize(sizes[0]);
  all.bytes.resize(sizes[1]);
  world.broadcast(Buffer(all.head.data(), all.head.size(), DType::u8), sides.donors.front()).wait();
  move(world, sides, sizes[2] != 0, all.bytes);
  return gives ? std::move(mine) : unpacked(all);
}

}  // namespace tutti::engine
