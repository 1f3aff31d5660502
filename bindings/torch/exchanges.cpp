// Backend: all_to_all, sparse reductions, point-to-point messages, the monitored barrier.
#include <algorithm>
#include <numeric>

#include "bindings/torch/backend.hpp"
#include "bindings/torch/errors.hpp"
#include "bindings/torch/memory.hpp"
#include "bindings/torch/signals.hpp"

namespace tutti::torch_binding {
namespace {

using c10d::OpType;
using std::chrono::milliseconds;

constexpr int monitor_tag = -2;  // a tag that no send of the program can have

/// Bytes per rank of a tensor that is split along its first dimension; empty `splits`: equal parts.
std::vector<std::size_t> split_bytes(const at::Tensor& tensor, const std::vector<std::int64_t>& splits,
                                     std::size_t ranks) {
  const auto rows = static_cast<std::size_t>(tensor.size(0));
  const std::size_t row = rows == 0 ? 0 : tensor.nbytes() / rows;
  std::vector<std::size_t> result;
  for (std::size_t i = 0; i < ranks; ++i)
    result.push_back(row * (splits.empty() ? rows / ranks : static_cast<std::size_t>(splits[i])));
  return result;
}

std::vector<std::size_t> bytes_of(const Tensors& tensors) {
  std::vector<std::size_t> result;
  for (const at::Tensor& one : tensors) result.push_back(one.nbytes());
  return result;
}

void check_splits(const std::vector<std::int64_t>& splits, const at::Tensor& tensor, int size, const char* call) {
  if (tensor.dim() == 0) refuse(call, "takes tensors of at least one dimension");
  const std::int64_t rows = tensor.size(0);
  if (splits.empty() && rows % size != 0) refuse(call, "Tensor's dim 0 does not divide equally across group size");
  if (splits.empty()) return;
  if (splits.size() != static_cast<std::size_t>(size)) refuse(call, "Number of tensor splits not equal to group size");
  if (std::ranges::any_of(splits, [](std::int64_t one) { return one < 0; })) refuse(call, "a split size is negative");
  if (std::accumulate(splits.begin(), splits.end(), std::int64_t{0}) != rows)
    refuse(call, "Split sizes doesn't match total dim 0 size");
}

}  // namespace

Backend::Made Backend::alltoall_base(at::Tensor& out, at::Tensor& in, std::vector<std::int64_t>& out_splits,
                                     std::vector<std::int64_t>& in_splits, const c10d::AllToAllOptions& options) {
  constexpr const char* name = "all_to_all";
  check_alike({out, in}, name);
  check_splits(out_splits, out, size_, name);
  check_splits(in_splits, in, size_, name);
  Request request{.type = OpType::ALLTOALL_BASE, .name = name, .inputs = {in}, .timeout = options.timeout};
  request.sources = {Block::reading(in)};
  request.results = {Block::writing(out)};
  Collective call{
      .kind = Kind::alltoall, .in = request.sources[0].bytes(), .out = request.results[0].bytes(), .op = {}};
  call.variable = !out_splits.empty() || !in_splits.empty();
  if (call.variable) {
    call.in_counts = split_bytes(in, in_splits, ranks());
    call.out_counts = split_bytes(out, out_splits, ranks());
  } else if (in.numel() != out.numel()) {
    refuse(name, "output has " + std::to_string(out.numel()) + " elements, and input " + std::to_string(in.numel()));
  }
  request.calls.push_back(std::move(call));
  request.outputs = {out};
  return start(std::move(request));
}

Backend::Made Backend::alltoall(Tensors& out, Tensors& in, const c10d::AllToAllOptions& options) {
  constexpr const char* name = "all_to_all";
  if (out.size() != ranks() || in.size() != ranks()) refuse(name, "takes a tensor for each rank in both lists");
  check_alike(out, name);
  check_alike(in, name);
  check_alike({out[0], in[0]}, name);
  Request request{.type = OpType::ALLTOALL, .name = name, .inputs = in, .timeout = options.timeout};
  request.sources = {Block::reading(in)};
  request.results = {Block::writing(out)};
  request.calls.push_back({.kind = Kind::alltoall,
                           .in = request.sources[0].bytes(),
                           .out = request.results[0].bytes(),
                           .op = {},
                           .variable = true,
                           .in_counts = bytes_of(in),
                           .out_counts = bytes_of(out)});
  request.outputs = out;
  return start(std::move(request));
}

Backend::Made Backend::allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& options) {
  if (tensors.size() != 1 || tensors[0].layout() != at::kSparse)
    refuse("sparse_all_reduce", "takes one sparse tensor of layout COO per rank");
  return start_sparse(tensors[0], options);
}

/// First makes an allgather of the numbers of values, which blocks. Then sends indices and values as one call.
Backend::Made Backend::start_sparse(const at::Tensor& tensor, const c10d::AllreduceOptions& options) {
  constexpr const char* name = "sparse_all_reduce";
  if (options.reduceOp != c10d::ReduceOp::SUM) refuse(name, "only ReduceOp.SUM is supported for sparse tensors");
  const at::AutoDispatchBelowAutograd guard;
  const at::Tensor mine = tensor.coalesce();
  const at::Tensor indices = mine.indices().t().contiguous(), values = mine.values().contiguous();
  std::vector<std::int64_t> counts(ranks());
  const std::int64_t own = mine._nnz();
  wait_until(here(name).allgather(std::span(&own, 1), std::span(counts)), never);
  const std::int64_t all = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  std::vector<std::int64_t> shape = values.sizes().vec();
  shape[0] = all;
  const at::Tensor all_indices = at::empty({all, indices.size(1)}, indices.options());
  const at::Tensor all_values = at::empty(shape, values.options());

  Request request{.type = OpType::_ALLREDUCE_SPARSE, .name = name, .inputs = {tensor}, .timeout = options.timeout};
  for (const auto& [from, to] : {std::pair(indices, all_indices), std::pair(values, all_values)}) {
    request.sources.push_back(Block::reading(from));
    request.results.push_back(Block::writing(to));
    Collective call{
        .kind = Kind::allgather, .in = request.sources.back().bytes(), .out = request.results.back().bytes(), .op = {}};
    call.variable = true;
    const std::size_t each = all == 0 ? 0 : to.nbytes() / static_cast<std::size_t>(all);
    for (const std::int64_t count : counts) call.out_counts.push_back(each * static_cast<std::size_t>(count));
    request.calls.push_back(std::move(call));
  }
  request.last = [tensor, all_indices, all_values] {
    at::Tensor into = tensor;
    into.copy_(at::sparse_coo_tensor(all_indices.t(), all_values, tensor.sizes(), tensor.options()).coalesce());
  };
  request.outputs = {tensor};
  return start(std::move(request));
}

/// Starts a receive if `to` is negative, else a send. Messages have no deadline, because the peer may post its call
/// much later.
Backend::Made Backend::message(Request request, int to, int from, int tag) {
  const char* const name = request.name;
  if (request.inputs.size() != 1) refuse(name, "takes one tensor");
  const at::Tensor& tensor = request.inputs[0];
  if (tensor.layout() != at::kStrided || !tensor.is_contiguous()) refuse(name, "takes a contiguous dense tensor");
  if (tag < 0) refuse(name, "Tag must be nonnegative");
  learn_names();
  Communicator communicator = group_->communicator();
  const CallOptions options = call_options(request, no_deadline);
  const Block block = to >= 0 ? Block::reading(tensor) : Block::writing(tensor);
  (to >= 0 ? request.sources : request.results) = {block};
  request.outputs = request.inputs;
  request.ordered = false;
  auto work = c10::make_intrusive<Work>(group_, std::move(request), sequence_);
  work->record(recorded_, to >= 0 ? rank_ : from, to >= 0 ? to : rank_);
  try {
    if (to < 0 && from == any_rank) {
      work->follow(communicator.recv_any(block.bytes(), tag, options));
    } else if (to >= 0) {
      work->follow({communicator.send(block.bytes(), to, tag, options)}, true);
    } else {
      work->set_source(from);
      work->follow({communicator.recv(block.bytes(), from, tag, options)}, true);
    }
  } catch (const Error& error) {
    const std::exception_ptr why = translated(error, name, group_->timeout());
    work->fail(why);
    std::rethrow_exception(why);
  }
  const std::lock_guard lock(mutex_);
  std::erase_if(messages_, [](const auto& one) { return one.expired(); });
  messages_.emplace_back(work);
  if (coalescing_) coalescing_->push_back(work);
  return work;
}

Backend::Made Backend::send(Tensors& tensors, int to, int tag) {
  if (to < 0 || to >= size_) refuse("send", "there is no rank " + std::to_string(to));
  return message({.type = OpType::SEND, .name = "send", .inputs = tensors}, to, -1, tag);
}

Backend::Made Backend::recv(Tensors& tensors, int from, int tag) {
  if (from < 0 || from >= size_) refuse("recv", "there is no rank " + std::to_string(from));
  return message({.type = OpType::RECV, .name = "recv", .inputs = tensors}, -1, from, tag);
}

Backend::Made Backend::recvAnysource(Tensors& tensors, int tag) {
  return message({.type = OpType::RECVANYSOURCE, .name = "recvAnySource", .inputs = tensors}, -1, any_rank, tag);
}

tutti::Work Backend::byte_to(int rank, std::byte& one, bool sends) {
  Collective call{.kind = Kind::send, .in = {}, .out = {}, .op = {}, .tag = monitor_tag};
  if (sends) {
    call.in = ConstBuffer(&one, 1, DType::u8);
    call.out = Buffer(nullptr, 0, DType::u8);
    call.to = rank;
  } else {
    call.in = ConstBuffer(nullptr, 0, DType::u8);
    call.out = Buffer(&one, 1, DType::u8);
    call.from = rank;
  }
  return group_->communicator().launch(std::move(call),
                                       CallOptions{.timeout = no_deadline, .algorithm = {}, .stream = {}, .keep = {}});
}

void Backend::monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all) {
  const milliseconds limit = options.timeout == c10d::kUnsetTimeout ? group_->timeout() : options.timeout;
  if (rank_ == 0) return monitor(limit, wait_all);
  std::byte one{};
  try {
    wait_until(byte_to(0, one, true), never);
    wait_until(byte_to(0, one, false), never);
  } catch (const Error& error) {
    const std::string self = std::to_string(rank_);
    std::rethrow_exception(
        backend_error("Rank " + self +
                      " successfully reached monitoredBarrier, but received errors while waiting for send/recv from "
                      "rank 0. Please check rank 0 logs for faulty rank.\n Original exception: \n" +
                      error.what()));
  }
}

/// Rank 0's part: receives a message from every rank, in rank order, then sends each rank a message that releases it.
void Backend::monitor(milliseconds limit, bool wait_all) {
  const auto begin = Clock::now();
  const std::string in = std::to_string(limit.count()) + " ms";
  std::vector<std::byte> heard(ranks());
  std::vector<tutti::Work> works;
  std::string missing, why;
  const auto give_up = [&](const std::string& text) {
    group_->abort(text);
    group_->note(Code::timeout);
    std::rethrow_exception(backend_error(text));
  };
  int missed = 0;
  for (int rank = 1; rank < size_; ++rank) works.push_back(byte_to(rank, heard[static_cast<std::size_t>(rank)], false));
  for (int rank = 1; rank < size_; ++rank) {
    const auto left = wait_all ? Seconds(limit) : Seconds(begin + limit - Clock::now());
    if (left <= Seconds(0)) give_up("Rank 0 timed out in monitoredBarrier after " + in + ".");
    bool came = false;
    try {
      came = wait_until(works[static_cast<std::size_t>(rank - 1)], deadline_in(left));
    } catch (const Error& error) {
      why = std::string("\n Original exception: \n") + error.what();
    }
    if (came) continue;
    missing += (missed++ == 0 ? "" : ", ") + std::to_string(rank);
    if (!wait_all) break;
  }
  if (missed > 0)
    give_up(std::string("[Rank 0]: ") + (wait_all ? "Ranks " : "Rank ") + missing +
            " failed to pass monitoredBarrier in " + in + why);
  works.clear();
  for (int rank = 1; rank < size_; ++rank) works.push_back(byte_to(rank, heard[static_cast<std::size_t>(rank)], true));
  for (const tutti::Work& work : works) wait_until(work, never);
}

}  // namespace tutti::torch_binding
