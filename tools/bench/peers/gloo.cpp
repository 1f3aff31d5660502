// Gloo's collectives over TCP on the loopback interface, measured with the benchmark's loop. Starts itself under `tutti
// run`.
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/gather.h>
#include <gloo/math.h>
#include <gloo/reduce.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/store.h>
#include <gloo/scatter.h>
#include <gloo/transport/tcp/device.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>

#include "collectives/bootstrap/bootstrap.hpp"
#include "tools/bench/measure.hpp"
#include "tools/options.hpp"

namespace tutti::bench {
namespace {

constexpr auto patience = std::chrono::seconds(60);

/// tutti's meeting point, as Gloo wants one.
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
    case DType::f16: return function_of<gloo::float16>(op);
    case DType::f32: return function_of<float>(op);
    case DType::f64: return function_of<double>(op);
    default: return nullptr;
  }
}

/// Elements only have a size where nothing is reduced: so one type for each width does.
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
  }
  std::string name() const override { return "gloo"; }
  int rank() const override { return context_->rank; }
  int ranks() const override { return context_->size; }

  std::string refuses(const Case& what) const override {
    if (what.kind == Kind::reduce_scatter || what.kind == Kind::send)
      return "gloo's interface has no " + std::string(collective_name(what.kind));
    if (what.reduces() && !function_of(what.op.op, what.dtype))
      return "gloo has no " + std::string(tutti::name(what.op.op)) + " of " + std::string(tutti::name(what.dtype));
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
        gloo::AllreduceOptions options(context_);
        options.setInput(in, what.count);
        options.setOutput(out, what.count);
        options.setReduceFunction(function_of(what.op.op, what.dtype));
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

  std::shared_ptr<gloo::rendezvous::Context> context_;
  std::shared_ptr<gloo::transport::Device> device_;
};

[[noreturn]] void launch(const Request& request, int count, char** words) {
  const int ranks = request.ranks > 0 ? request.ranks : 2;
  const auto self = std::filesystem::read_symlink("/proc/self/exe");
  std::string tutti = self.parent_path().parent_path() / "tutti";  // the build tree: bin/bench-peers/gloo
  if (!std::filesystem::exists(tutti)) tutti = self.parent_path() / "../../../bin/tutti";  // libexec/tutti/bench-peers
  std::vector<std::string> launcher = {tutti, "run", "-np", std::to_string(ranks), self};
  launcher.insert(launcher.end(), words + 1, words + count);
  launch_with_board(launcher, ranks);
}

int run(int count, char** words) {
  const Request request = parse_request("gloo", {words + 1, words + count});
  const char* board = std::getenv(board_variable);
  if (!board) launch(request, count, words);
  const Bootstrap boot = bootstrap_from_environment(request.settings);
  if (boot.size < 2) throw Error(Code::invalid, "gloo needs at least 2 ranks: -np 2");
  try {
    Gloo peer(boot);
    return measure_and_print(peer, *open_shared_board(board, boot.rank, boot.size), request);
  } catch (const std::exception& error) {
    if (boot.rank == 0) std::fprintf(stderr, "gloo: %s\n", error.what());
    return 1;
  }
}

}  // namespace
}  // namespace tutti::bench

int main(int count, char** words) {
  try {
    return tutti::bench::run(count, words);
  } catch (const tutti::tools::Finished& finished) {
    return finished.exit_code;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gloo: %s\n", error.what());
    return 2;
  }
}
