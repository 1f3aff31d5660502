// What a rank holds for peers that it never talks to.
#include <memory>

#include "benchmarks/growth/heap.hpp"
#include "benchmarks/growth/law.hpp"
#include "collectives/api/agreement.hpp"
#include "collectives/api/cards.hpp"
#include "collectives/bootstrap/gathering.hpp"
#include "tutti/bootstrap.hpp"
#include "tutti/communicator.hpp"

namespace tutti::growth {
namespace {

constexpr int ranks_of_a_host = 8;

Settings settings_of_the_job() {
  Settings settings;
  settings.transport = "tcp";
  settings.job = "growth";
  settings.secret = "secret";
  settings.tuning = "off";
  return settings;
}

/// A store that holds what the other ranks of a job of `size` have told: eight on each host, reached by tcp.
std::shared_ptr<Store> store_of_a_job(int size, const Settings& settings) {
  const std::shared_ptr<Store> store = make_local_store();
  Settings first = settings;
  Bootstrap root;
  root.size = size;
  root.store = store;
  static_cast<void>(agree_with_first(root, first));
  Texts cards, addresses;
  for (int rank = 0; rank < size; ++rank) {
    const std::string host = "5f0c8a52-3c5d-4d0e-9a4f-000000000000-" + std::to_string(rank / ranks_of_a_host);
    const std::string name = "node" + std::to_string(rank / ranks_of_a_host);
    cards.add("0 0-7", host + "\n" + name + "\n\ntcp=\n");
    addresses.add("0123456789abcdef 40001", "tcp 2\n" + name + "\n" + host + "\n=\n10.1.2.3 0 eth0\n");
  }
  launchers::answer_all(*store, "cards", cards);
  launchers::answer_all(*store, "tcp addresses", addresses);
  return store;
}

/// Bytes of heap that the world of the last rank holds, per peer.
double bytes_for_a_peer(std::int64_t size) {
  const Settings settings = settings_of_the_job();
  const std::shared_ptr<Store> store = store_of_a_job(static_cast<int>(size), settings);
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
  return {
      {"memory",
       "bytes that a rank holds for each peer, before it talks to any",
       How::simulated,
       {8192, 65536},
       bytes_for_a_peer,
       0.02,
       104},
  };
}

}  // namespace tutti::growth
