// Backend: the collectives. Each checks its tensors, makes Blocks of them and launches the call.
#include <algorithm>

#include "bindings/torch/backend.hpp"
#include "bindings/torch/errors.hpp"

namespace tutti::torch_binding {
namespace {

using c10d::OpType;

const at::Tensor& the_one(const Tensors& tensors, const char* call) {
  if (tensors.size() != 1) refuse(call, "takes one tensor per rank, not " + std::to_string(tensors.size()));
  if (tensors[0].layout() != at::kStrided) refuse(call, "takes dense tensors");
  return tensors[0];
}

void check_root(std::int64_t root, int size, const char* call) {
  if (root < 0 || root >= size)
    refuse(call, "invalid root rank: " + std::to_string(root) + " is no rank of a group of " + std::to_string(size));
}

void check_same_type(const at::Tensor& a, const at::Tensor& b, const char* call) {
  if (a.scalar_type() != b.scalar_type())
    refuse(call, "output is " + type_name(a) + " and input is " + type_name(b) + "; they must be of one type");
  if (a.device() != b.device()) refuse(call, "output and input must be on one device");
}

/// The only list of `lists`, which must have one tensor per rank.
const Tensors& list_of_ranks(const std::vector<Tensors>& lists, std::size_t ranks, const char* call) {
  if (lists.size() != 1) refuse(call, "takes one list of tensors per rank, not " + std::to_string(lists.size()));
  if (lists[0].size() != ranks)
    refuse(call, "the list has " + std::to_string(lists[0].size()) + " tensors, and the group has " +
                     std::to_string(ranks) + " ranks");
  return lists[0];
}

bool is_even(const Tensors& list) {
  return std::ranges::all_of(list, [&](const at::Tensor& one) { return one.numel() == list[0].numel(); });
}

std::vector<std::size_t> counts(const Tensors& list, std::size_t width) {
  std::vector<std::size_t> result;
  for (const at::Tensor& one : list) result.push_back(one.nbytes() / width);
  return result;
}

}  // namespace

/// Checks that the tensors are dense and of one type on one device, so that they can be one Block.
void Backend::check_alike(const Tensors& tensors, const char* call) const {
  if (tensors.empty()) refuse(call, "takes at least one tensor");
  for (const at::Tensor& one : tensors) {
    if (one.layout() != at::kStrided) refuse(call, "takes dense tensors");
    check_same_type(one, tensors[0], call);
  }
}

Backend::Made Backend::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  constexpr const char* name = "broadcast";
  const at::Tensor& tensor = the_one(tensors, name);
  check_root(options.rootRank, size_, name);
  if (options.rootTensor != 0) refuse(name, "invalid root tensor: " + std::to_string(options.rootTensor));
  const Block block = Block::updating(tensor);
  Request request{.type = OpType::BROADCAST, .name = name, .inputs = tensors, .timeout = options.timeout};
  request.calls.push_back(
      {.kind = Kind::broadcast, .in = {}, .out = block.bytes(), .op = {}, .root = static_cast<int>(options.rootRank)});
  request.outputs = tensors;
  request.results = {block};
  return start(std::move(request));
}

Backend::Made Backend::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  constexpr const char* name = "all_reduce";
  if (tensors.size() == 1 && tensors[0].layout() == at::kSparse) return start_sparse(tensors[0], options);
  const Elements elements = elements_of(the_one(tensors, name).scalar_type(), options.reduceOp, name);
  const Block block = Block::updating(tensors);
  Request request{.type = OpType::ALLREDUCE, .name = name, .inputs = tensors, .timeout = options.timeout};
  const Buffer data = block.elements(elements);
  request.calls.push_back({.kind = Kind::allreduce, .in = data, .out = data, .op = elements.op});
  request.outputs = tensors;
  request.results = {block};
  return start(std::move(request));
}

Backend::Made Backend::allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) {
  constexpr const char* name = "all_reduce";
  check_alike(tensors, name);
  const Elements elements = elements_of(tensors[0].scalar_type(), options.reduceOp, name);
  Request request{.type = OpType::ALLREDUCE_COALESCED, .name = name, .inputs = tensors, .timeout = options.timeout};
  for (const at::Tensor& tensor : tensors) {
    request.results.push_back(Block::updating(tensor));
    const Buffer data = request.results.back().elements(elements);
    request.calls.push_back({.kind = Kind::allreduce, .in = data, .out = data, .op = elements.op});
  }
  request.outputs = tensors;
  return start(std::move(request));
}

Backend::Made Backend::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  constexpr const char* name = "reduce";
  const Elements elements = elements_of(the_one(tensors, name).scalar_type(), options.reduceOp, name);
  check_root(options.rootRank, size_, name);
  if (options.rootTensor != 0) refuse(name, "invalid root tensor: " + std::to_string(options.rootTensor));
  const Block block = Block::updating(tensors);
  Request request{.type = OpType::REDUCE, .name = name, .inputs = tensors, .timeout = options.timeout};
  const Buffer data = block.elements(elements);
  request.calls.push_back(
      {.kind = Kind::reduce, .in = data, .out = data, .op = elements.op, .root = static_cast<int>(options.rootRank)});
  request.outputs = tensors;
  (options.rootRank == rank_ ? request.results : request.sources).push_back(block);
  return start(std::move(request));
}

Backend::Made Backend::allgather(std::vector<Tensors>& out, Tensors& in, const c10d::AllgatherOptions& options) {
  constexpr const char* name = "all_gather";
  const at::Tensor& input = the_one(in, name);
  const Tensors& list = list_of_ranks(out, ranks(), name);
  check_alike(list, name);
  check_same_type(list[0], input, name);
  if (list[static_cast<std::size_t>(rank_)].numel() != input.numel())
    refuse(name, "this rank's input has " + std::to_string(input.numel()) + " elements, and its place in the list " +
                     std::to_string(list[static_cast<std::size_t>(rank_)].numel()));
  Request request{.type = OpType::ALLGATHER, .name = name, .inputs = in, .timeout = options.timeout};
  request.sources = {Block::reading(in)};
  request.results = {Block::writing(list)};
  Collective call{
      .kind = Kind::allgather, .in = request.sources[0].bytes(), .out = request.results[0].bytes(), .op = {}};
  call.variable = !is_even(list);
  if (call.variable) call.out_counts = counts(list, 1);
  request.calls.push_back(std::move(call));
  request.outputs = list;
  request.lists = out;
  return start(std::move(request));
}

Backend::Made Backend::_allgather_base(at::Tensor& out, at::Tensor& in, const c10d::AllgatherOptions& options) {
  Tensors outs{out}, ins{in};
  return allgather_into_tensor_coalesced(outs, ins, options);
}

Backend::Made Backend::allgather_into_tensor_coalesced(Tensors& out, Tensors& in,
                                                       const c10d::AllgatherOptions& options) {
  constexpr const char* name = "_all_gather_base";
  if (out.size() != in.size() || out.empty()) refuse(name, "takes as many outputs as inputs, and at least one");
  Request request{.type = OpType::_ALLGATHER_BASE, .name = name, .inputs = in, .timeout = options.timeout};
  for (std::size_t i = 0; i < out.size(); ++i) {
    check_alike({out[i], in[i]}, name);
    if (out[i].numel() != in[i].numel() * size_)
      refuse(name, "output tensor size must be equal to world_size times input tensor size: " +
                       std::to_string(out[i].numel()) + " is not " + std::to_string(size_) + " times " +
                       std::to_string(in[i].numel()));
    request.sources.push_back(Block::reading(in[i]));
    request.results.push_back(Block::writing(out[i]));
    request.calls.push_back({.kind = Kind::allgather,
                             .in = request.sources.back().bytes(),
                             .out = request.results.back().bytes(),
                             .op = {}});
  }
  request.outputs = out;
  return start(std::move(request));
}

Backend::Made Backend::allgather_coalesced(std::vector<Tensors>& out, Tensors& in,
                                           const c10d::AllgatherOptions& options) {
  constexpr const char* name = "all_gather";
  if (out.size() != ranks() || in.empty())
    refuse(name, "takes a list of outputs for each rank, and at least one input");
  Request request{.type = OpType::ALLGATHER_COALESCED, .name = name, .inputs = in, .timeout = options.timeout};
  for (std::size_t i = 0; i < in.size(); ++i) {
    Tensors list;
    for (const Tensors& of_rank : out) {
      if (of_rank.size() != in.size()) refuse(name, "invalid output size: a list has not as many tensors as the input");
      if (of_rank[i].numel() != in[i].numel()) refuse(name, "invalid size of output tensor: it is not the input's");
      list.push_back(of_rank[i]);
    }
    check_alike(list, name);
    check_same_type(list[0], in[i], name);
    request.sources.push_back(Block::reading(in[i]));
    request.results.push_back(Block::writing(list));
    request.calls.push_back({.kind = Kind::allgather,
                             .in = request.sources.back().bytes(),
                             .out = request.results.back().bytes(),
                             .op = {}});
  }
  request.outputs = out[0];
  request.lists = out;
  return start(std::move(request));
}

Backend::Made Backend::reduce_scatter(Tensors& out, std::vector<Tensors>& in,
                                      const c10d::ReduceScatterOptions& options) {
  constexpr const char* name = "reduce_scatter";
  const at::Tensor& output = the_one(out, name);
  const Tensors& list = list_of_ranks(in, ranks(), name);
  check_alike(list, name);
  check_same_type(output, list[0], name);
  if (list[static_cast<std::size_t>(rank_)].numel() != output.numel())
    refuse(name, "the output has not as many elements as this rank's place in the list");
  const Elements elements = elements_of(output.scalar_type(), options.reduceOp, name);
  Request request{.type = OpType::REDUCE_SCATTER, .name = name, .inputs = list, .timeout = options.timeout};
  request.sources = {Block::reading(list)};
  request.results = {Block::writing(out)};
  Collective call{.kind = Kind::reduce_scatter,
                  .in = request.sources[0].elements(elements),
                  .out = request.results[0].elements(elements),
                  .op = elements.op};
  call.variable = !is_even(list);
  if (call.variable) call.in_counts = counts(list, size_of(elements.dtype));
  request.calls.push_back(std::move(call));
  request.outputs = out;
  return start(std::move(request));
}

Backend::Made Backend::_reduce_scatter_base(at::Tensor& out, at::Tensor& in,
                                            const c10d::ReduceScatterOptions& options) {
  Tensors outs{out}, ins{in};
  return reduce_scatter_tensor_coalesced(outs, ins, options);
}

Backend::Made Backend::reduce_scatter_tensor_coalesced(Tensors& out, Tensors& in,
                                                       const c10d::ReduceScatterOptions& options) {
  constexpr const char* name = "_reduce_scatter_base";
  if (out.size() != in.size() || out.empty()) refuse(name, "takes as many outputs as inputs, and at least one");
  Request request{.type = OpType::_REDUCE_SCATTER_BASE, .name = name, .inputs = in, .timeout = options.timeout};
  for (std::size_t i = 0; i < out.size(); ++i) {
    check_alike({out[i], in[i]}, name);
    if (in[i].numel() != out[i].numel() * size_)
      refuse(name,
             "input tensor must be the same size as output size times world size: " + std::to_string(in[i].numel()) +
                 " is not " + std::to_string(size_) + " times " + std::to_string(out[i].numel()));
    const Elements elements = elements_of(out[i].scalar_type(), options.reduceOp, name);
    request.sources.push_back(Block::reading(in[i]));
    request.results.push_back(Block::writing(out[i]));
    request.calls.push_back({.kind = Kind::reduce_scatter,
                             .in = request.sources.back().elements(elements),
                             .out = request.results.back().elements(elements),
                             .op = elements.op});
  }
  request.outputs = out;
  return start(std::move(request));
}

Backend::Made Backend::gather(std::vector<Tensors>& out, Tensors& in, const c10d::GatherOptions& options) {
  constexpr const char* name = "gather";
  const at::Tensor& input = the_one(in, name);
  check_root(options.rootRank, size_, name);
  const bool is_root = options.rootRank == rank_;
  if (!is_root && !out.empty()) refuse(name, "requires empty output on non-root");
  Request request{.type = OpType::GATHER, .name = name, .inputs = in, .timeout = options.timeout};
  request.sources = {Block::reading(in)};
  Collective call{.kind = Kind::gather,
                  .in = request.sources[0].bytes(),
                  .out = {},
                  .op = {},
                  .root = static_cast<int>(options.rootRank)};
  if (is_root) {
    const Tensors& list = list_of_ranks(out, ranks(), name);
    check_alike(list, name);
    check_same_type(list[0], input, name);
    if (!is_even(list) || list[0].numel() != input.numel())
      refuse(name, "each tensor of the list must have as many elements as the input");
    request.results = {Block::writing(list)};
    call.out = request.results[0].bytes();
    request.outputs = list;
  }
  request.calls.push_back(std::move(call));
  return start(std::move(request));
}

Backend::Made Backend::scatter(Tensors& out, std::vector<Tensors>& in, const c10d::ScatterOptions& options) {
  constexpr const char* name = "scatter";
  const at::Tensor& output = the_one(out, name);
  check_root(options.rootRank, size_, name);
  const bool is_root = options.rootRank == rank_;
  if (!is_root && !in.empty()) refuse(name, "requires empty input on non-root");
  Request request{.type = OpType::SCATTER, .name = name, .inputs = {}, .timeout = options.timeout};
  request.results = {Block::writing(output)};
  Collective call{.kind = Kind::scatter,
                  .in = {},
                  .out = request.results[0].bytes(),
                  .op = {},
                  .root = static_cast<int>(options.rootRank)};
  if (is_root) {
    const Tensors& list = list_of_ranks(in, ranks(), name);
    check_alike(list, name);
    check_same_type(output, list[0], name);
    if (!is_even(list) || list[0].numel() != output.numel())
      refuse(name, "each tensor of the list must have as many elements as the output");
    request.sources = {Block::reading(list)};
    request.inputs = list;
    call.in = request.sources[0].bytes();
  }
  request.calls.push_back(std::move(call));
  request.outputs = out;
  return start(std::move(request));
}

}  // namespace tutti::torch_binding
