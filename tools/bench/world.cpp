// How the benchmark calls tutti.
#include "tools/bench/world.hpp"

#include <algorithm>
#include <string>

#include "collectives/algorithm.hpp"
#include "collectives/planned_backend.hpp"
#include "collectives/selector.hpp"
#include "transports/core/status.hpp"
#include "transports/modules.hpp"

namespace tutti::bench {
namespace {

[[noreturn]] void refuse(const std::string& what) { throw Error(Code::invalid, what); }

Target target_of(const Request& request) {
  const std::string kind(collective_name(request.kind));
  if (request.kind == Kind::send) refuse(kind + " has no algorithms; leave --algorithm out");
  return parse_target(request.algorithm, request.kind, provider_names(request.settings));
}

class World : public Implementation {
 public:
  World(const Communicator& world, const Request& request) : world_(world), allocates_(request.memory == "allocated") {
    options_.algorithm = request.algorithm;
    if (request.algorithm.empty()) return;
    if (const Target target = target_of(request); target.backend != PlannedBackend::own_name)
      world_.use_backend(target.backend);
  }
  std::string name() const override { return "tutti"; }
  int rank() const override { return world_.rank(); }
  int ranks() const override { return world_.size(); }
  std::string refuses(const Case&) const override { return {}; }

  std::shared_ptr<std::byte> memory(std::size_t bytes) override {
    if (!allocates_) return Implementation::memory(bytes);
    const auto owner =
        std::make_shared<Allocation<std::uint8_t>>(world_.allocate<std::uint8_t>(std::max<std::size_t>(bytes, 64)));
    return {owner, reinterpret_cast<std::byte*>(owner->data())};
  }

  void run(const Case& what, const std::byte* from, std::byte* into) override {
    const ConstBuffer in(from, what.in_count(), what.dtype);
    const Buffer out(into, what.out_count(), what.dtype);
    start(world_, what, {in, out}, options_).wait();
  }

  void run_beside(const Case& what, const std::byte* from, std::byte* into,
                  const std::function<void()>& compute) override {
    const ConstBuffer in(from, what.in_count(), what.dtype);
    const Buffer out(into, what.out_count(), what.dtype);
    Work work = start(world_, what, {in, out}, options_);
    compute();
    work.wait();
  }

 private:
  Communicator world_;
  CallOptions options_;
  bool allocates_;
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
