// Gloo's collectives over TCP on the loopback interface, measured with the benchmark's loop. `tutti run` starts the
// ranks.
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/alltoall.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/config.h>
#include <gloo/gather.h>
#include <gloo/math.h>
#include <gloo/reduce.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/store.h>
#include <gloo/scatter.h>
#include <gloo/transport/tcp/device.h>

#include <algorithm>
#include <cstdlib>
#include <type_traits>
#include <utility>

#include "benchmarks/peers/peer.hpp"
#include "tutti/bootstrap.hpp"

namespace tutti::bench {
namespace {

constexpr auto patience = std::chrono::seconds(60);

/// A tutti::Store with Gloo's interface.
class Meeting : public gloo::rendezvous::Store {
 public:
  explicit Meeting(tutti::Store& store) : store_(store) {}
  void set(const std::string& key, const std::vector<char>& data) override {
    store_.set("gloo/" + key, {data.data(), data.size()});
  }
  std::vector<char> get(const std::string& key) override {
    const std::string value = store_.wait("gloo/" + key, deadline_in(patience));
    return {value.begin(), value.end()};
  }
  void wait(const std::vector<std::string>& keys) override { wait(keys, patience); }
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout) override {
    for (const std::string& key : keys) (void)store_.wait("gloo/" + key, deadline_in(timeout));
  }

 private:
  tutti::Store& store_;
};

using Function = void (*)(void*, const void*, const void*, std::size_t);

template <class T>
Function function_of(Op op) {
  switch (op) {
    case Op::sum: return &gloo::sum<T>;
    case Op::prod: return &gloo::product<T>;
    case Op::min: return &gloo::min<T>;
    case Op::max: return &gloo::max<T>;
    default: return nullptr;
  }
}

Function function_of(Op op, DType dtype) {
  switch (dtype) {
    case DType::i8: return function_of<std::int8_t>(op);
    case DType::u8: return function_of<std::uint8_t>(op);
    case DType::i32: return function_of<std::int32_t>(op);
    case DType::i64: return function_of<std::int64_t>(op);
    case DType::u32: return function_of<std::uint32_t>(op);
    case DType::u64: return function_of<std::uint64_t>(op);
    case DType::f16: return function_of<gloo::float16>(op);
    case DType::f32: return function_of<float>(op);
    case DType::f64: return function_of<double>(op);
    default: return nullptr;
  }
}

template <class T>
const gloo::ReductionFunction<T>* older_function_of(Op op) {
  switch (op) {
    case Op::prod: return gloo::ReductionFunction<T>::product;
    case Op::min: return gloo::ReductionFunction<T>::min;
    case Op::max: return gloo::ReductionFunction<T>::max;
    default: return gloo::ReductionFunction<T>::sum;
  }
}

/// Only the size of an element matters where nothing is reduced, so one type for each size suffices.
template <class F>
void with_width(std::size_t width, F f) {
  if (width == 1) return f(std::uint8_t{});
  if (width == 2) return f(std::uint16_t{});
  if (width == 4) return f(float{});
  return f(double{});
}

class Gloo : public Implementation {
 public:
  explicit Gloo(const Bootstrap& boot) : context_(std::make_shared<gloo::rendezvous::Context>(boot.rank, boot.size)) {
    gloo::transport::tcp::attr attributes;
    attributes.hostname = "127.0.0.1";
    context_->setTimeout(patience);
    Meeting store(*boot.store);
    context_->connectFullMesh(store, device_ = gloo::transport::tcp::CreateDevice(attributes));
    const char* wanted = std::getenv("BENCH_GLOO_ALLREDUCE");
    const std::string algorithm = wanted ? wanted : "";
    if (algorithm == "ring") algorithm_ = Algorithm::RING;
    if (algorithm == "bcube") algorithm_ = Algorithm::BCUBE;
    halving_ = algorithm == "halving_doubling";
  }
  std::string name() const override { return "gloo"; }
  int rank() const override { return context_->rank; }
  int ranks() const override { return context_->size; }

  std::string refuses(const Case& what) const override {
    if (what.kind == Kind::reduce_scatter || what.kind == Kind::send)
      return "gloo's interface has no " + std::string(collective_name(what.kind));
    if (what.reduces() && !function_of(what.op.op, what.dtype))
      return "gloo has no " + std::string(tutti::name(what.op.op)) + " of " + std::string(tutti::name(what.dtype));
    if (halving_ && (what.dtype != DType::f32 && what.dtype != DType::f64))
      return "halving_doubling is measured for f32 and f64";
    if (halving_ && what.count > 0x7fffffff) return "gloo's older interface has 32-bit counts";
    if (what.in_place && what.kind != Kind::allreduce && what.kind != Kind::reduce) return "not in place";
    return {};
  }

  void run(const Case& what, const std::byte* from, std::byte* into) override {
    with_width(size_of(what.dtype), [&]<class T>(T) { run_as<T>(what, from, into); });
  }

 private:
  template <class T>
  void run_as(const Case& what, const std::byte* from, std::byte* into) {
    auto* in = const_cast<T*>(reinterpret_cast<const T*>(from));
    auto* out = reinterpret_cast<T*>(into);
    switch (what.kind) {
      case Kind::allreduce: {
        if (halving_) return halving(what, in, out);
        gloo::AllreduceOptions options(context_);
        options.setInput(in, what.count);
        options.setOutput(out, what.count);
        options.setReduceFunction(function_of(what.op.op, what.dtype));
        options.setAlgorithm(algorithm_);
        return gloo::allreduce(options);
      }
      case Kind::reduce: {
        gloo::ReduceOptions options(context_);
        options.setInput(in, what.count);
        options.setOutput(out, what.count);
        options.setReduceFunction(function_of(what.op.op, what.dtype));
        options.setRoot(what.root);
        return gloo::reduce(options);
      }
      case Kind::broadcast: {
        gloo::BroadcastOptions options(context_);
        options.setOutput(out, what.count);
        options.setRoot(what.root);
        return gloo::broadcast(options);
      }
      case Kind::allgather: {
        gloo::AllgatherOptions options(context_);
        options.setInput(in, what.count);
        options.setOutput(out, what.out_count());
        return gloo::allgather(options);
      }
      case Kind::gather: return gather(what, in, out);
      case Kind::scatter: return scatter(what, in, out);
      case Kind::alltoall: {
        gloo::AlltoallOptions options(context_);
        options.setInput(in, what.in_count());
        options.setOutput(out, what.out_count());
        return gloo::alltoall(options);
      }
      default: {
        gloo::BarrierOptions options(context_);
        return gloo::barrier(options);
      }
    }
  }

  /// Uses Gloo's older interface: an object for one buffer and size, which works in place.
  template <class T>
  void halving(const Case& what, T* in, T* out) {
    if constexpr (std::is_floating_point_v<T>) {
      const auto key = std::pair<const void*, std::size_t>(out, what.count);
      if (key != halving_of_) {
        halving_algorithm_ = std::make_unique<gloo::AllreduceHalvingDoubling<T>>(
            context_, std::vector<T*>{out}, static_cast<int>(what.count), older_function_of<T>(what.op.op));
        halving_of_ = key;
      }
      if (!what.in_place) std::copy(in, in + what.count, out);
      halving_algorithm_->run();
    }
  }

  template <class T>
  void gather(const Case& what, T* in, T* out) {
    gloo::GatherOptions options(context_);
    options.setInput(in, what.count);
    if (rank() == what.root) options.setOutput(out, what.out_count());
    options.setRoot(what.root);
    gloo::gather(options);
  }

  template <class T>
  void scatter(const Case& what, T* in, T* out) {
    gloo::ScatterOptions options(context_);
    std::vector<T*> blocks;
    for (int r = 0; r < ranks(); ++r) blocks.push_back(in + static_cast<std::size_t>(r) * what.count);
    if (rank() == what.root) options.setInputs(blocks, what.count);
    options.setOutput(out, what.count);
    options.setRoot(what.root);
    gloo::scatter(options);
  }

  using Algorithm = gloo::AllreduceOptions::Algorithm;
  std::shared_ptr<gloo::rendezvous::Context> context_;
  Algorithm algorithm_ = Algorithm::UNSPECIFIED;
  bool halving_ = false;
  std::unique_ptr<gloo::Algorithm> halving_algorithm_;
  std::pair<const void*, std::size_t> halving_of_;
  std::shared_ptr<gloo::transport::Device> device_;
};

std::string version() {
  return "Gloo " + std::to_string(GLOO_VERSION_MAJOR) + "." + std::to_string(GLOO_VERSION_MINOR) + "." +
         std::to_string(GLOO_VERSION_PATCH);
}

int work(const Task& task) {
  const Bootstrap boot = bootstrap_from_environment(Settings::from_environment());
  if (boot.size < 2) throw Error(Code::invalid, "gloo needs at least 2 ranks: -np 2");
  Gloo peer(boot);
  return measure_peer(peer, task);
}

}  // namespace
}  // namespace tutti::bench

int main(int count, char** words) {
  return tutti::bench::peer_main(count, words, "gloo", tutti::bench::version, tutti::bench::work);
}
