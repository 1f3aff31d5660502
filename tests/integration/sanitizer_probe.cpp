// A program built with ThreadSanitizer that uses a tutti built without it, as users do: threads share data with calls
// and callbacks in allowed ways, so no race may be reported. With `race`, two threads also write a variable without
// synchronisation.
#include <atomic>
#include <cstdio>
#include <cstring>
#include <thread>
#include <vector>

#include "tutti.hpp"

namespace {

void use(tutti::Communicator comm, std::atomic<int>& wrong) {
  const int next = (comm.rank() + 1) % comm.size(), before = (comm.rank() + comm.size() - 1) % comm.size();
  for (const std::size_t count : {std::size_t{1}, std::size_t{1000}, std::size_t{60000}})
    for (int i = 0; i < 5; ++i) {
      std::vector<float> data(count, 1.0f), other(count);
      int plain = 0;
      std::atomic<bool> called{false};
      const tutti::Work work = comm.allreduce(data, tutti::sum);
      work.then([&](const tutti::Status&) {
        plain = 1;
        called = true;
      });
      work.wait();
      while (!called) std::this_thread::yield();
      if (plain != 1 || data.back() != static_cast<float>(comm.size())) ++wrong;
      for (float& x : data) x = 2;
      comm.broadcast(data, 0).wait();
      comm.sendrecv(data, next, tutti::Buffer(other), before).wait();
      auto shared = comm.allocate<float>(count);
      for (float& x : shared) x = 1;
      comm.allreduce(shared, tutti::sum).wait();
      if (other.back() != 2 || shared[0] != static_cast<float>(comm.size())) ++wrong;
    }
}

}  // namespace

int main(int argc, char** argv) {
  auto world = tutti::Communicator::from_env();
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (const tutti::Communicator& comm : {world, world.dup()}) threads.emplace_back([&, comm] { use(comm, wrong); });
  for (std::thread& one : threads) one.join();
  if (argc > 1 && std::strcmp(argv[1], "race") == 0) {
    int shared = 0;
    std::thread other([&] { ++shared; });
    ++shared;
    other.join();
    std::printf("%d\n", shared);
  }
  std::printf("wrong %d\n", wrong.load());
  return wrong.load();
}
