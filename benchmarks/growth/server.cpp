// The parameter server: what the arrival of one message costs, by the number of workers.
#include <ctime>
#include <thread>

#include "benchmarks/growth/heap.hpp"
#include "benchmarks/growth/jobs.hpp"
#include "benchmarks/growth/law.hpp"
#include "transports/core/work_set.hpp"

namespace tutti::growth {
namespace {

/// The cost of one message, for its sender and the server together. The server has posted a receive for each worker,
/// and the message completes one of these.
struct Arrival {
  double seconds = 0;  // of CPU
  double bytes = 0;    // allocated on the heap, freed again or not
};
Arrival arrival_beside(std::int64_t workers) {
  constexpr int arrivals = 2000;
  const std::shared_ptr<Store> store = make_local_store();
  const int end = static_cast<int>(workers);
  std::thread peer([&] {
    Communicator world = world_of_thread(store, 1, 2, "tcp");
    for (int i = 0; i < arrivals; ++i) {
      int go = 0;
      world.recv(Buffer(&go, 1), 0, end).wait();
      world.send(ConstBuffer(&i, 1), 0, i % end).wait();
    }
    world.barrier().wait();
  });
  Arrival arrival;
  {
    Communicator world = world_of_thread(store, 0, 2, "tcp");
    std::vector<int> values(static_cast<std::size_t>(workers));
    std::vector<Work> receives(values.size());
    WorkSet works;
    const auto listen = [&](std::uint64_t at) {
      receives[at] = world.recv(Buffer(&values[at], 1), 1, static_cast<int>(at), {.timeout = no_deadline});
      works.add(receives[at], at);
    };
    for (std::uint64_t at = 0; at < values.size(); ++at) listen(at);
    const std::clock_t begin = std::clock();
    const double taken = heap_now().taken;
    std::vector<std::uint64_t> ready;
    for (int i = 0; i < arrivals; ++i) {
      const int go = 1;
      world.send(ConstBuffer(&go, 1), 1, end).wait();
      works.wait(ready, Seconds(60));
      for (const std::uint64_t at : ready) listen(at);
      ready.clear();
    }
    arrival = {static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC / arrivals,
               (heap_now().taken - taken) / arrivals};
    world.barrier().wait();
    for (const Work& one : receives) static_cast<void>(one.cancel());
  }
  peer.join();
  return arrival;
}

}  // namespace

std::vector<Law> server_laws() {
  const std::vector<std::int64_t> workers = {64, 1024, 8192};
  return {
      {"server", "bytes taken from the heap for one arrival, both sides, by workers", How::simulated, workers,
       [](std::int64_t n) { return arrival_beside(n).bytes; }, 0.1, 512},
      {"server", "seconds of CPU for one arrival, both sides, by workers", How::simulated, workers,
       [](std::int64_t n) { return arrival_beside(n).seconds; }, 0.1, 1e-4, false},
  };
}

}  // namespace tutti::growth
