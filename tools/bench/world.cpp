// The calls of tutti that the benchmark makes.
#include "tools/bench/world.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "collectives/plan/algorithm.hpp"
#include "collectives/plan/planned_backend.hpp"
#include "collectives/route/selector.hpp"
#include "transports/accelerators.hpp"
#include "tutti/provider/provider.hpp"
#include "tutti/status.hpp"

namespace tutti::bench {
namespace {

[[noreturn]] void refuse(const std::string& what) { throw Error(Code::invalid, what); }

Target target_of(const Request& request) {
  const std::string kind(collective_name(request.kind));
  if (request.kind == Kind::send) refuse(kind + " has no algorithms; leave --algorithm out");
  return parse_target(request.algorithm, request.kind, provider_names(request.settings));
}

// Copies of the buffers on the rank's device. The host fills and checks them outside the timed part.
class Mirror {
 public:
  explicit Mirror(const Communicator& world) : gpu_(accelerator(world.settings())) {
    if (const std::string why = gpu_.why_not(); !why.empty())
      throw Error(Code::unsupported, "--device cuda: no CUDA device: " + why);
    device_ = {Device::Kind::cuda, device_of_rank(gpu_, world.topology().hosts().index_of(world.rank()))};
  }
  Device device() const noexcept { return device_; }
  void add(std::byte* host, std::size_t bytes) {
    auto memory = gpu_.allocate(device_.index, bytes);
    copies_.push_back({host, bytes, std::move(memory)});
  }
  std::byte* at(const std::byte* host) const {
    for (const Copy& one : copies_)
      if (host >= one.host && host < one.host + one.bytes)
        return static_cast<std::byte*>(one.memory.get()) + (host - one.host);
    return nullptr;
  }
  void upload() {
    for (const Copy& one : copies_) gpu_.copy(stream(), one.memory.get(), one.host, one.bytes);
    gpu_.synchronize(stream());
  }
  void download() {
    for (const Copy& one : copies_) gpu_.copy(stream(), one.host, one.memory.get(), one.bytes);
    gpu_.synchronize(stream());
  }

 private:
  struct Copy {
    std::byte* host;
    std::size_t bytes;
    std::shared_ptr<void> memory;
  };
  Stream stream() const noexcept { return {nullptr, device_.index}; }

  Accelerator& gpu_;
  Device device_;
  std::vector<Copy> copies_;
};

class World : public Implementation {
 public:
  World(const Communicator& world, const Request& request) : world_(world), allocates_(request.memory == "allocated") {
    options_.algorithm = request.algorithm;
    if (request.device == "cuda") mirror_.emplace(world_);
    if (request.algorithm.empty()) return;
    if (const Target target = target_of(request); target.backend != PlannedBackend::own_name)
      world_.use_backend(target.backend);
  }
  std::string name() const override { return "tutti"; }
  int rank() const override { return world_.rank(); }
  int ranks() const override { return world_.size(); }
  std::string refuses(const Case&) const override { return {}; }

  std::shared_ptr<std::byte> memory(std::size_t bytes) override {
    if (!allocates_) {
      auto made = Implementation::memory(bytes);
      if (mirror_) mirror_->add(made.get(), std::max<std::size_t>(bytes, 64));
      return made;
    }
    const auto owner =
        std::make_shared<Allocation<std::uint8_t>>(world_.allocate<std::uint8_t>(std::max<std::size_t>(bytes, 64)));
    return {owner, reinterpret_cast<std::byte*>(owner->data())};
  }

  void written() override {
    if (mirror_) mirror_->upload();
  }
  void looked_at() override {
    if (mirror_) mirror_->download();
  }

  void run(const Case& what, const std::byte* from, std::byte* into) override {
    start(world_, what, buffers(what, from, into), options_).wait();
  }

  void run_beside(const Case& what, const std::byte* from, std::byte* into,
                  const std::function<void()>& compute) override {
    Work work = start(world_, what, buffers(what, from, into), options_);
    compute();
    work.wait();
  }

 private:
  CallBuffers buffers(const Case& what, const std::byte* from, std::byte* into) const {
    if (!mirror_) return {{from, what.in_count(), what.dtype}, {into, what.out_count(), what.dtype}};
    return {{mirror_->at(from), what.in_count(), what.dtype, mirror_->device()},
            {mirror_->at(into), what.out_count(), what.dtype, mirror_->device()}};
  }

  Communicator world_;
  CallOptions options_;
  bool allocates_;
  std::optional<Mirror> mirror_;  // with --device cuda
};

class WorldBoard : public Board {
 public:
  explicit WorldBoard(const Communicator& world) : world_(world) {}
  void barrier() override { world_.barrier().wait(); }
  std::vector<double> durations(std::span<const Stamp> stamps) override {
    std::vector<double> seconds;
    for (const Stamp& stamp : stamps) seconds.push_back(static_cast<double>(stamp.left - stamp.entered) * 1e-9);
    world_.allreduce(seconds, max).wait();
    return seconds;
  }
  std::uint64_t sum(std::uint64_t value) override {
    return static_cast<std::uint64_t>(world_.allreduce(static_cast<std::int64_t>(value)).wait());
  }
  std::int64_t from_first(std::int64_t value) override { return world_.broadcast(value).wait(); }

 private:
  Communicator world_;
};

}  // namespace

void check_algorithm(const Request& request, int ranks) {
  if (request.algorithm.empty()) return;
  const Target target = target_of(request);
  const Algorithm* algorithm = find_algorithm(request.kind, target.algorithm);
  if (target.backend != PlannedBackend::own_name || algorithm == nullptr || algorithm->fits == nullptr) return;
  for (const Case& what : cases(request, ranks))
    if (!algorithm->fits({.size = ranks, .count = what.count, .root = what.root}))
      refuse("the algorithm '" + target.algorithm + "' cannot do " + std::string(collective_name(request.kind)) +
             " on " + std::to_string(ranks) + " ranks: take another one, or another -np; there are " +
             algorithm_names(request.kind));
}

Work start(Communicator& world, const Case& what, const CallBuffers& at, const CallOptions& options) {
  const auto& [in, out] = at;
  switch (what.kind) {
    case Kind::allreduce: return world.allreduce(in, out, what.op, options);
    case Kind::reduce: return world.reduce(in, out, what.op, what.root, options);
    case Kind::broadcast: return world.broadcast(out, what.root, options);
    case Kind::allgather: return world.allgather(in, out, options);
    case Kind::reduce_scatter: return world.reduce_scatter(in, out, what.op, options);
    case Kind::gather: return world.gather(in, out, what.root, options);
    case Kind::scatter: return world.scatter(in, out, what.root, options);
    case Kind::alltoall: return world.alltoall(in, out, options);
    case Kind::barrier: return world.barrier(options);
    case Kind::send: return world.shift(in, out, 1, options);
  }
  return {};
}

std::unique_ptr<Implementation> make_world(const Communicator& world, const Request& request) {
  return std::make_unique<World>(world, request);
}

std::unique_ptr<Board> make_world_board(const Communicator& world) { return std::make_unique<WorldBoard>(world); }

}  // namespace tutti::bench
