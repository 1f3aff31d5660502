// The start of a job: how many requests the ranks send to the store, and how many bytes it takes and returns.
#include <memory>

#include "benchmarks/growth/jobs.hpp"
#include "benchmarks/growth/law.hpp"
#include "benchmarks/growth/store_process.hpp"
#include "collectives/bootstrap/gathering.hpp"
#include "tests/support/counting_store.hpp"
#include "transports/core/open_files.hpp"

namespace tutti::growth {
namespace {

using launchers::Gatherers;
using launchers::Gathering;
using testing::CountingStore;

Gatherers gatherers(int rank, int size, const std::shared_ptr<Store>& store) {
  Gatherers who;
  who.rank = rank;
  who.size = size;
  who.one_host = true;
  who.store = store;
  who.secret = "secret";
  who.until = deadline_in(Seconds(60));
  return who;
}

/// Every rank publishes a text, and receives the texts of all (the answer). One thread plays all ranks, leaves of the
/// tree first. Only some ranks read the answer; their requests and bytes are multiplied to stand for all ranks.
struct Asked {
  double requests = 0, bytes = 0;  // of each rank
};
Asked gathered(int size, const std::shared_ptr<CountingStore>& store) {
  std::vector<std::unique_ptr<Gathering>> ranks;
  for (int rank = 0; rank < size; ++rank) ranks.push_back(std::make_unique<Gathering>(gatherers(rank, size, store)));
  for (int rank = size - 1; rank >= 0; --rank) ranks[static_cast<std::size_t>(rank)]->give("cards", tcp_text_of(rank));
  const int all = store->is_one_server() ? 1 : std::max(1, size / 512);  // one rank in `all` reads the answer
  ranks[0]->take("cards");
  const auto root = static_cast<double>(store->requests), root_bytes = static_cast<double>(store->bytes);
  int readers = 0;
  for (int rank = 1; rank < size; rank += all, ++readers) ranks[static_cast<std::size_t>(rank)]->take("cards");
  const double share = static_cast<double>(size - 1) / readers;
  const double requests = root + share * (static_cast<double>(store->requests) - root);
  const double bytes = root_bytes + share * (static_cast<double>(store->bytes) - root_bytes);
  while (!ranks.empty()) ranks.pop_back();  // destroys children before their parents, which wait for them
  return {requests / size, bytes / size};
}

double requests_of_a_rank(std::int64_t size) {
  return gathered(static_cast<int>(size), std::make_shared<CountingStore>(make_local_store(), false)).requests;
}

/// The bytes that the store takes and returns for each rank, if ranks pass the answer on over connections of their own.
double bytes_of_a_rank(std::int64_t size) {
  raise_limit_of_open_files();
  return gathered(static_cast<int>(size), std::make_shared<CountingStore>(make_local_store(), true)).bytes;
}

double rounds(std::int64_t size) {
  return 2.0 * launchers::branch_of(0, static_cast<int>(size), Gatherers().fan_out).height;
}

/// CPU seconds of a store's server, in a process of its own, for two exchanges.
double seconds_of_the_server(std::int64_t size) {
  raise_limit_of_open_files();
  StoreProcess server(static_cast<int>(size));
  {
    std::vector<std::unique_ptr<Gathering>> ranks;
    for (int rank = 0; rank < size; ++rank)
      ranks.push_back(std::make_unique<Gathering>(gatherers(rank, static_cast<int>(size), server.connect())));
    for (const char* const name : {"cards", "addresses"}) {
      for (auto rank = static_cast<int>(size) - 1; rank >= 0; --rank)
        ranks[static_cast<std::size_t>(rank)]->give(name, tcp_text_of(rank));
      for (const auto& one : ranks) one->take(name);
    }
    while (!ranks.empty()) ranks.pop_back();
  }
  return server.end();
}

}  // namespace

std::vector<Law> start_laws() {
  return {
      {"start",
       "requests to the store in one exchange, of each rank",
       How::simulated,
       {64, 1024, 8192, 65536},
       requests_of_a_rank,
       0.1,
       6},
      {"start",
       "bytes of values that the store takes and gives in one exchange, for each rank",
       How::simulated,
       {64, 1024, 4096},
       bytes_of_a_rank,
       0.1,
       2200},
      {"start", "rounds of one exchange", How::function, {64, 1024, 8192, 65536}, rounds, 0.2, 6},
      {"start",
       "seconds of the store's CPU, two exchanges",
       How::simulated,
       {64, 1024, 2048},
       seconds_of_the_server,
       1.1,
       1,
       false},
  };
}

}  // namespace tutti::growth
