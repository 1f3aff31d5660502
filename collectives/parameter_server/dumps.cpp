// The worker's side of dumps.
#include <algorithm>
#include <map>

#include "collectives/parameter_server/parameters.hpp"

namespace tutti {
namespace {

constexpr std::uint64_t mark = 0x3173707369747574u;  // the first bytes of a dump: "tutisps1", with the format's version

// Merges the servers' vector clocks: by worker, the number of its requests that each server has to process so that no
// server has processed a request that was sent after one which another server lacks.
std::map<int, std::vector<std::uint64_t>> agreed(const std::vector<std::vector<std::byte>>& taken) {
  std::map<int, std::vector<std::uint64_t>> until;
  for (const std::vector<std::byte>& text : taken) {
    Deserializer archive(text);
    while (!archive.is_at_end()) {
      std::vector<std::uint64_t>& counts = until[archive.take<int>()];
      counts.resize(taken.size());
      for (std::uint64_t& count : counts) count = std::max(count, archive.take<std::uint64_t>());
    }
  }
  return until;
}

std::vector<std::size_t> cut(const std::shared_ptr<Outbox>& outbox) {
  const auto until = agreed(ask_all(outbox, {.verb = protocol::Verb::cut, .what = "dump"}));
  std::vector<std::vector<std::byte>> payloads;
  for (std::size_t server = 0; server < outbox->links().size(); ++server) {
    Serializer archive;
    for (const auto& [worker, counts] : until) {
      archive.put(worker);
      archive.put(counts[server]);
    }
    payloads.push_back(archive.take());
  }
  const std::vector<ConstBytes> views(payloads.begin(), payloads.end());
  std::vector<std::size_t> sizes;
  for (const auto& text : ask_all(outbox, {.verb = protocol::Verb::cut_at, .what = "dump", .payloads = views}))
    sizes.push_back(Deserializer(text).take<std::uint64_t>());
  return sizes;
}

}  // namespace

std::vector<std::byte> dump_of(const std::shared_ptr<Outbox>& outbox) {
  std::vector<std::size_t> sizes;
  try {
    sizes = cut(outbox);
  } catch (...) {  // servers that have begun the dump must not wait for its next step
    try {
      (void)ask_all(outbox, {.verb = protocol::Verb::uncut, .what = "dump"});
    } catch (const Error&) {  // the first failure is reported
    }
    throw;
  }
  std::vector<std::vector<std::byte>> parts;
  std::vector<Bytes> into;
  for (const std::size_t size : sizes) parts.emplace_back(size);
  for (std::vector<std::byte>& part : parts) into.emplace_back(part);
  (void)ask_all(outbox, {.verb = protocol::Verb::fetch, .what = "dump", .into = into});
  Serializer dump;
  dump.put(mark);
  dump.put<std::uint64_t>(parts.size());
  for (const std::vector<std::byte>& part : parts) dump.put_bytes(part);
  return dump.take();
}

void load_into(const std::shared_ptr<Outbox>& outbox, ConstBytes dump) {
  Deserializer reader(dump);
  if (reader.take<std::uint64_t>() != mark) throw Error(Code::invalid, "parameter server: load: this is not a dump");
  const auto servers = reader.take<std::uint64_t>();
  if (servers != outbox->links().size())
    throw Error(Code::invalid, "parameter server: load: this is a dump of " + std::to_string(servers) +
                                   " servers, and there are " + std::to_string(outbox->links().size()) +
                                   "; take as many, or pull and push the values");
  std::vector<ConstBytes> parts;
  for (std::uint64_t i = 0; i < servers; ++i) parts.push_back(reader.take_bytes());
  (void)ask_all(outbox, {.verb = protocol::Verb::load, .what = "load", .payloads = parts});
}

}  // namespace tutti
