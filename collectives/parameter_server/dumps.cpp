// The worker's side of dumps.
#include <algorithm>
#include <chrono>
#include <limits>
#include <map>
#include <thread>

#include "collectives/parameter_server/parameters.hpp"

namespace tutti {
namespace {

constexpr std::uint64_t mark = 0x3173707369747574u;  // the first bytes of a dump: "tutisps1", ending in the version

/// The requests of a worker that a dump contains: those up to number `taken`, which are `sent` messages to all servers
/// together.
struct WorkerClock {
  std::uint64_t taken = 0, sent = 0;
};

/// Returns for each worker the number of its latest request that any server has processed. Every server then processes
/// that worker's requests up to this number, and none after it. A dump that contains a request therefore contains all
/// earlier requests of that worker, on every server.
std::map<int, WorkerClock> latest(const std::vector<std::vector<std::byte>>& clocks) {
  std::map<int, WorkerClock> until;
  for (const std::vector<std::byte>& text : clocks) {
    Deserializer archive(text);
    while (!archive.is_at_end()) {
      WorkerClock& clock = until[archive.take<int>()];
      const auto taken = archive.take<std::uint64_t>(), sent = archive.take<std::uint64_t>();
      if (taken > clock.taken) clock = {taken, sent};
    }
  }
  return until;
}

/// True if for each worker the servers together have processed all messages that `until` counts. Messages of a worker
/// that has died may never arrive, so it counts as complete.
bool all_processed(const std::map<int, WorkerClock>& until, const std::vector<std::vector<std::byte>>& replies) {
  std::map<int, std::uint64_t> processed;
  for (const std::vector<std::byte>& text : replies) {
    Deserializer archive(text);
    while (!archive.is_at_end()) {
      const int worker = archive.take<int>();
      const auto messages = archive.take<std::uint64_t>();
      std::uint64_t& sum = processed[worker];
      const bool has_died = archive.take<std::uint8_t>() != 0;
      constexpr auto enough = std::numeric_limits<std::uint64_t>::max() / 2;
      sum = has_died ? enough : sum + (sum < enough ? messages : 0);
    }
  }
  return std::ranges::all_of(until, [&](const auto& entry) { return processed[entry.first] >= entry.second.sent; });
}

std::vector<std::size_t> cut(const std::shared_ptr<Outbox>& outbox) {
  const auto until = latest(ask_all(outbox, {.verb = protocol::Verb::cut, .what = "dump"}));
  Serializer archive;
  for (const auto& [worker, clock] : until) {
    archive.put(worker);
    archive.put(clock.taken);
  }
  const std::vector<std::byte> numbers = archive.take();
  const std::vector<ConstBytes> payload = {numbers};
  constexpr std::chrono::microseconds first_pause{50}, longest_pause{5000};
  for (auto pause = first_pause;; pause = std::min(2 * pause, longest_pause)) {  // until all messages have arrived
    if (all_processed(until, ask_all(outbox, {.verb = protocol::Verb::cut_at, .what = "dump", .payloads = payload})))
      break;
    std::this_thread::sleep_for(pause);
  }
  std::vector<std::size_t> sizes;
  for (const auto& text : ask_all(outbox, {.verb = protocol::Verb::cut_take, .what = "dump"}))
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
    } catch (const Error&) {  // the first failure is thrown below
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
