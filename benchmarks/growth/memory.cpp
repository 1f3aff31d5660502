// The memory that a rank holds for peers with which it exchanges no messages.
#include <memory>

#include "benchmarks/growth/heap.hpp"
#include "benchmarks/growth/jobs.hpp"
#include "benchmarks/growth/law.hpp"
#include "collectives/api/agreement.hpp"
#include "collectives/api/cards.hpp"
#include "collectives/bootstrap/gathering.hpp"

namespace tutti::growth {
namespace {

Settings settings_of_the_job() {
  Settings settings;
  settings.transport = "tcp";
  settings.job = "growth";
  settings.secret = "secret";
  settings.tuning = "off";
  return settings;
}

/// A store that holds what the ranks of a job of `size` ranks have published. All ranks reach one another by tcp.
std::shared_ptr<Store> store_of_a_job(int size, int on_a_host, const Settings& settings) {
  const std::shared_ptr<Store> store = make_local_store();
  Settings first = settings;
  Bootstrap root;
  root.size = size;
  root.store = store;
  static_cast<void>(agree_with_first(root, first));
  Texts cards, addresses;
  for (int rank = 0; rank < size; ++rank) {
    cards.add("0 0-7", host_of(rank, on_a_host) + "\n" + host_name_of(rank, on_a_host) + "\n\ntcp=\n");
    const Text address = tcp_text_of(rank, on_a_host);
    addresses.add(address.own, address.shared);
  }
  launchers::answer_all(*store, "cards", cards);
  launchers::answer_all(*store, "tcp addresses", addresses);
  return store;
}

/// Bytes of heap that the world of the last rank holds, per peer.
double bytes_for_a_peer(std::int64_t size, int on_a_host) {
  const Settings settings = settings_of_the_job();
  const std::shared_ptr<Store> store = store_of_a_job(static_cast<int>(size), on_a_host, settings);
  Bootstrap last;
  last.rank = static_cast<int>(size) - 1;
  last.size = static_cast<int>(size);
  last.store = store;
  last.settings = settings;
  const double before = heap_now().bytes;
  const Communicator world = Communicator::connect(last);
  const double after = heap_now().bytes;
  return (after - before) / static_cast<double>(size);
}

}  // namespace

std::vector<Law> memory_laws() {
  const std::vector<std::int64_t> sizes = {8192, 65536};
  return {
      {"memory", "bytes that a rank holds for each peer, before it talks to any; 8 ranks a host", How::simulated, sizes,
       [](std::int64_t n) { return bytes_for_a_peer(n, 8); }, 0.02, 64},
      {"memory", "the same with one rank on each host", How::simulated, sizes,
       [](std::int64_t n) { return bytes_for_a_peer(n, 1); }, 0.02, 200},
  };
}

}  // namespace tutti::growth
