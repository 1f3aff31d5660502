// The parameter server: what an arrival costs, by the number of workers.
#include <ctime>
#include <thread>

#include "benchmarks/growth/jobs.hpp"
#include "benchmarks/growth/law.hpp"
#include "transports/core/work_set.hpp"

namespace tutti::growth {
namespace {

/// Seconds of CPU, of both sides, for a message to one of the receives of so many workers.
double wake_beside(std::int64_t workers) {
  constexpr int arrivals = 2000;
  const std::shared_ptr<Store> store = make_local_store();
  const int end = static_cast<int>(workers);
  std::thread peer([&] {
    Communicator world = world_of_thread(store, 1, 2);
    for (int i = 0; i < arrivals; ++i) {
      int go = 0;
      world.recv(Buffer(&go, 1), 0, end).wait();
      world.send(ConstBuffer(&i, 1), 0, i % end).wait();
    }
    world.barrier().wait();
  });
  double seconds = 0;
  {
    Communicator world = world_of_thread(store, 0, 2);
    std::vector<int> values(static_cast<std::size_t>(workers));
    std::vector<Work> receives(values.size());
    WorkSet works;
    const auto listen = [&](std::uint64_t at) {
      receives[at] = world.recv(Buffer(&values[at], 1), 1, static_cast<int>(at), {.timeout = no_deadline});
      works.add(receives[at], at);
    };
    for (std::uint64_t at = 0; at < values.size(); ++at) listen(at);
    const std::clock_t begin = std::clock();
    std::vector<std::uint64_t> ready;
    for (int i = 0; i < arrivals; ++i) {
      const int go = 1;
      world.send(ConstBuffer(&go, 1), 1, end).wait();
      works.wait(ready, Seconds(60));
      for (const std::uint64_t at : ready) listen(at);
      ready.clear();
    }
    seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC / arrivals;
    world.barrier().wait();
    for (const Work& one : receives) static_cast<void>(one.cancel());
  }
  peer.join();
  return seconds;
}

}  // namespace

std::vector<Law> server_laws() {
  return {
      {"server",
       "seconds of CPU for one arrival, both sides, by workers",
       How::simulated,
       {64, 1024, 8192},
       wake_beside,
       0.1,
       1e-4,
       false},
  };
}

}  // namespace tutti::growth
