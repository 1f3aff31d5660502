// What a rank holds for peers that it never talks to.
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
    cards.add("0 0-7", host_of(rank) + "\n" + host_name_of(rank) + "\n\ntcp=\n");
    const Text address = tcp_text_of(rank);
    addresses.add(address.own, address.shared);
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
