// Times Gloo's own ring over RDMA, for comparison: the median of TIMES allreduces in microseconds, on rank 0.
//
//   gloo_ring_probe RANK SIZE STORE_FOLDER DEVICE GID_INDEX COUNT TIMES
#include <gloo/allreduce_ring.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/ibverbs/device.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

int main(int count, char** words) {
  if (count != 8) return 2;
  const std::vector<std::string> arguments(words + 1, words + count);
  try {
    const int rank = std::stoi(arguments[0]), size = std::stoi(arguments[1]);
    gloo::transport::ibverbs::attr where;
    where.name = arguments[3];
    where.port = 1;
    where.index = std::stoi(arguments[4]);
    std::shared_ptr<gloo::transport::Device> device = gloo::transport::ibverbs::CreateDevice(where);
    gloo::rendezvous::FileStore store(arguments[2]);
    const auto context = std::make_shared<gloo::rendezvous::Context>(rank, size);
    context->setTimeout(std::chrono::seconds(60));
    context->connectFullMesh(store, device);
    std::vector<float> data(std::stoul(arguments[5]));
    gloo::AllreduceRing<float> ring(context, {data.data()}, static_cast<int>(data.size()));
    std::vector<double> us;
    for (int i = std::stoi(arguments[6]); i > 0; --i) {
      std::fill(data.begin(), data.end(), static_cast<float>(rank + 1));
      const auto start = std::chrono::steady_clock::now();
      ring.run();
      us.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count());
      if (data.front() != static_cast<float>(size * (size + 1)) / 2 || data.back() != data.front())
        throw std::runtime_error("a wrong sum");
    }
    std::sort(us.begin(), us.end());
    if (rank == 0) std::printf("%f\n", us[us.size() / 2]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gloo_ring_probe: %s\n", error.what());
    return 1;
  }
}
