#include "transports/nccl/calls.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "transports/causes.hpp"
#include "transports/core/layout.hpp"
#include "tutti/dtype.hpp"

namespace tutti::nccl {
namespace {

DataType type_of(DType dtype) noexcept {
  switch (dtype) {
    case DType::i8: return int8;
    case DType::u8: return uint8;
    case DType::i32: return int32;
    case DType::i64: return int64;
    case DType::u32: return uint32;
    case DType::u64: return uint64;
    case DType::f16: return float16;
    case DType::bf16: return bfloat16;
    case DType::f32: return float32;
    default: return float64;
  }
}

RedOp op_of(Op op) noexcept {
  switch (op) {
    case Op::avg: return op_avg;
    case Op::prod: return op_prod;
    case Op::min: return op_min;
    case Op::max: return op_max;
    default: return op_sum;
  }
}

/// An NCCL operator, created and destroyed for premul_sum.
class Operator {
 public:
  Operator(const Stage& stage, Reduction op, DType dtype) : stage_(stage), value_(op_of(op.op)) {
    if (op.op != Op::premul_sum) return;
    std::array<std::byte, 8> factor{};
    write(factor, dtype, op.factor);
    check(stage.nccl,
          stage.nccl.call.red_op_create_pre_mul_sum(&value_, factor.data(), type_of(dtype), scalar_host_immediate,
                                                    stage.comm),
          "ncclRedOpCreatePreMulSum");
    made_ = true;
  }
  ~Operator() {
    if (made_) stage_.nccl.call.red_op_destroy(value_, stage_.comm);
  }
  Operator(const Operator&) = delete;
  Operator& operator=(const Operator&) = delete;
  RedOp value() const noexcept { return value_; }

 private:
  template <class T>
  static void put(std::array<std::byte, 8>& into, T value) {
    std::memcpy(into.data(), &value, sizeof value);
  }
  static void write(std::array<std::byte, 8>& into, DType dtype, double factor) {
    if (dtype == DType::f64) return put(into, factor);
    const auto narrow = static_cast<float>(factor);
    if (dtype == DType::f32) return put(into, narrow);
    if (dtype == DType::f16) return put(into, f16(narrow));
    put(into, bf16(narrow));
  }

  const Stage& stage_;
  RedOp value_;
  bool made_ = false;
};

/// A scope between ncclGroupStart and ncclGroupEnd.
class Grouped {
 public:
  explicit Grouped(const Library& nccl) : nccl_(nccl) { check(nccl, nccl.call.group_start(), "ncclGroupStart"); }
  void end() {
    open_ = false;
    check(nccl_, nccl_.call.group_end(), "ncclGroupEnd");
  }
  ~Grouped() {
    if (open_) nccl_.call.group_end();
  }
  Grouped(const Grouped&) = delete;
  Grouped& operator=(const Grouped&) = delete;

 private:
  const Library& nccl_;
  bool open_ = true;
};

/// Issues one call. Calls that only move data are issued as bytes where NCCL lacks the type, such as 16-bit integers.
class Player {
 public:
  Player(const Collective& call, const Stage& stage)
      : call_(call), stage_(stage), dtype_(common_dtype(call)), width_(size_of(dtype_)) {}

  Issued play() {
    switch (call_.kind) {
      case Kind::allreduce: allreduce(); break;
      case Kind::reduce: reduce(); break;
      case Kind::broadcast: spread(call_.out.data, call_.out.data, call_.out.count, call_.root); break;
      case Kind::allgather: allgather(); break;
      case Kind::reduce_scatter: reduce_scatter(); break;
      case Kind::gather: gather(); break;
      case Kind::scatter: scatter(); break;
      case Kind::alltoall: alltoall(); break;
      default: barrier(); break;
    }
    return {std::move(scratch_), std::move(next_piece_)};
  }

 private:
  const Api& nccl() const noexcept { return stage_.nccl.call; }
  void ask(Result result, const char* function) const { check(stage_.nccl, result, function); }
  std::size_t me() const noexcept { return static_cast<std::size_t>(stage_.rank); }
  std::size_t size() const noexcept { return static_cast<std::size_t>(stage_.size); }
  bool at_root() const noexcept { return stage_.rank == call_.root; }

  // The elements in each rank's block, and the block's offset in bytes.
  struct Blocks {
    std::vector<std::size_t> counts, at;
  };
  Blocks blocks(const std::vector<std::size_t>& counts, std::size_t each) const {
    Blocks made{call_.variable ? counts : std::vector(size(), each), {}};
    std::size_t bytes = 0;
    for (const std::size_t count : made.counts) {
      made.at.push_back(bytes);
      bytes += count * width_;
    }
    return made;
  }

  void allreduce() {
    const Operator op(stage_, call_.op, dtype_);
    ask(nccl().all_reduce(call_.in.data, call_.out.data, call_.in.count, type_of(dtype_), op.value(), stage_.comm,
                          stage_.stream.handle),
        "ncclAllReduce");
  }
  void reduce() {
    const Operator op(stage_, call_.op, dtype_);
    fold_to(call_.in.data, call_.out.data, call_.in.count, {op.value(), call_.root});
  }
  struct To {
    RedOp op;
    int root;
  };
  void fold_to(const std::byte* from, std::byte* into, std::size_t count, To to) {
    ask(nccl().reduce(from, stage_.rank == to.root ? into : nullptr, count, type_of(dtype_), to.op, to.root,
                      stage_.comm, stage_.stream.handle),
        "ncclReduce");
  }
  void spread(const std::byte* from, std::byte* into, std::size_t count, int root) {
    ask(nccl().broadcast(from, into, count * width_, int8, root, stage_.comm, stage_.stream.handle), "ncclBroadcast");
  }
  void allgather() {
    if (!call_.variable)
      return ask(
          nccl().all_gather(call_.in.data, call_.out.data, call_.in.bytes(), int8, stage_.comm, stage_.stream.handle),
          "ncclAllGather");
    const Blocks out = blocks(call_.out_counts, 0);
    Grouped group(stage_.nccl);
    for (std::size_t r = 0; r < size(); ++r)
      if (out.counts[r] > 0) spread(call_.in.data, call_.out.data + out.at[r], out.counts[r], static_cast<int>(r));
    group.end();
  }
  void reduce_scatter() {
    const Operator op(stage_, call_.op, dtype_);
    if (!call_.variable)
      return ask(nccl().reduce_scatter(call_.in.data, call_.out.data, call_.out.count, type_of(dtype_), op.value(),
                                       stage_.comm, stage_.stream.handle),
                 "ncclReduceScatter");
    const Blocks in = blocks(call_.in_counts, 0);
    Grouped group(stage_.nccl);
    for (std::size_t r = 0; r < size(); ++r)
      if (in.counts[r] > 0)
        fold_to(call_.in.data + in.at[r], call_.out.data, in.counts[r], {op.value(), static_cast<int>(r)});
    group.end();
  }

  void send(const std::byte* from, std::size_t count, std::size_t to) {
    if (count > 0)
      ask(nccl().send(from, count * width_, int8, static_cast<int>(to), stage_.comm, stage_.stream.handle), "ncclSend");
  }
  void recv(std::byte* into, std::size_t count, std::size_t from) {
    if (count > 0)
      ask(nccl().recv(into, count * width_, int8, static_cast<int>(from), stage_.comm, stage_.stream.handle),
          "ncclRecv");
  }
  void keep(std::byte* into, const std::byte* from, std::size_t count) {
    if (count > 0 && into != from) stage_.accelerator.copy(stage_.stream, into, from, count * width_);
  }

  void gather() {
    const auto root = static_cast<std::size_t>(call_.root);
    if (!at_root()) return send(call_.in.data, call_.in.count, root);
    const Blocks out = blocks(call_.out_counts, call_.in.count);
    keep(call_.out.data + out.at[root], call_.in.data, out.counts[root]);
    Grouped group(stage_.nccl);
    for (std::size_t r = 0; r < size(); ++r)
      if (r != root) recv(call_.out.data + out.at[r], out.counts[r], r);
    group.end();
  }
  void scatter() {
    const auto root = static_cast<std::size_t>(call_.root);
    if (!at_root()) return recv(call_.out.data, call_.out.count, root);
    const Blocks in = blocks(call_.in_counts, call_.out.count);
    keep(call_.out.data, call_.in.data + in.at[root], in.counts[root]);
    Grouped group(stage_.nccl);
    for (std::size_t r = 0; r < size(); ++r)
      if (r != root) send(call_.in.data + in.at[r], in.counts[r], r);
    group.end();
  }
  void alltoall() {
    const Blocks in = blocks(call_.in_counts, call_.in.count / size());
    const Blocks out = blocks(call_.out_counts, call_.out.count / size());
    const std::byte* from = call_.in.data;
    if (from == call_.out.data && call_.in.count > 0) {  // received blocks would overwrite blocks not sent yet
      if (!call_.variable) return alltoall_in_place(in);
      scratch_ = spare_memory(stage_.accelerator, stage_.stream.device, call_.in.bytes());
      stage_.accelerator.copy(stage_.stream, scratch_.get(), from, call_.in.bytes());
      from = static_cast<const std::byte*>(scratch_.get());
    }
    keep(call_.out.data + out.at[me()], from + in.at[me()], in.counts[me()]);
    Grouped group(stage_.nccl);
    for (std::size_t r = 0; r < size(); ++r) {
      if (r == me()) continue;
      send(from + in.at[r], in.counts[r], r);
      recv(call_.out.data + out.at[r], out.counts[r], r);
    }
    group.end();
  }
  // Works in pieces. A piece of every block is copied to scratch and sent from there. The piece that is received then
  // overwrites it in the block.
  void alltoall_in_place(const Blocks& blocks) {
    scratch_ = stage_.scratch.exchange();
    next_piece_ = [player = *this, blocks, done = std::size_t{0}]() mutable {
      const std::size_t count = player.exchange_piece(blocks, done);
      done += count;
      return count > 0;
    };
    next_piece_();
  }
  // Exchanges a piece that begins at element `done` of every block; returns the number of elements per block.
  std::size_t exchange_piece(const Blocks& blocks, std::size_t done) {
    auto* const aside = static_cast<std::byte*>(scratch_.get());
    const std::size_t area = std::max<std::size_t>(Scratch::exchange_bytes / size() / 256 * 256, 256);
    const std::size_t count = std::min(area / width_, blocks.counts[0] - done);
    if (count == 0) return 0;
    const auto place = [&](std::size_t r) { return call_.out.data + blocks.at[r] + done * width_; };
    for (std::size_t r = 0; r < size(); ++r)
      if (r != me()) keep(aside + r * area, place(r), count);
    Grouped group(stage_.nccl);
    for (std::size_t r = 0; r < size(); ++r) {
      if (r == me()) continue;
      send(aside + r * area, count, r);
      recv(place(r), count, r);
    }
    group.end();
    return count;
  }
  void barrier() {
    scratch_ = stage_.scratch.word();
    stage_.accelerator.zero(stage_.stream, scratch_.get(), sizeof(int));
    ask(nccl().all_reduce(scratch_.get(), scratch_.get(), 1, int32, op_sum, stage_.comm, stage_.stream.handle),
        "ncclAllReduce");
  }

  const Collective& call_;
  const Stage stage_;
  const DType dtype_;
  const std::size_t width_;
  std::shared_ptr<void> scratch_;
  std::function<bool()> next_piece_;
};

}  // namespace

std::span<const std::string_view> algorithms(Kind kind) noexcept {
  static constexpr std::string_view its_own[] = {""};
  if (kind == Kind::send) return {};
  return its_own;
}

Status supported(const Collective& call, std::string_view algorithm) {
  const auto no = [](const std::string& why) { return Status::failure(Code::unsupported, why); };
  if (Status able = check_algorithm_name("nccl", algorithm, call.kind, algorithms(call.kind)); !able.ok()) return able;
  if (call.kind == Kind::barrier) return {};
  if (common_device(call).kind != Device::Kind::cuda) return no("nccl reaches CUDA memory only");
  if (!folds(call.kind)) return {};
  const DType dtype = common_dtype(call);
  if (dtype == DType::i16 || dtype == DType::u16) return no("nccl folds no " + std::string(name(dtype)));
  if (call.op.op == Op::band || call.op.op == Op::bor || call.op.op == Op::bxor)
    return no("nccl has no operator " + std::string(name(call.op.op)));
  return {};
}

Issued issue(const Collective& call, const Stage& stage) { return Player(call, stage).play(); }

std::shared_ptr<void> issue_alone(const Collective& call, Accelerator& accelerator, const Stream& stream) {
  if (call.kind == Kind::broadcast || call.kind == Kind::barrier || call.in.count == 0) return {};
  if (folds(call.kind) && call.op.op == Op::premul_sum)
    accelerator.scale(stream, call.in.dtype, call.out.view(), call.in.data, call.op.factor);
  else if (call.in.data != call.out.data)
    accelerator.copy(stream, call.out.data, call.in.data, call.in.bytes());
  return {};
}

}  // namespace tutti::nccl
