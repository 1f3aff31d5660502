#include "transports/gloo/calls.hpp"

#include <gloo/allgather.h>
#include <gloo/allgatherv.h>
#include <gloo/allreduce.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/alltoall.h>
#include <gloo/alltoallv.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/gather.h>
#include <gloo/reduce.h>
#include <gloo/scatter.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "transports/causes.hpp"
#include "transports/core/layout.hpp"

namespace tutti {
namespace {

using namespace std::string_view_literals;
using Context = std::shared_ptr<gloo::Context>;

constexpr std::array allreduces = {"ring"sv, "bcube"sv, "halving_doubling"sv};
constexpr std::array rings = {"ring"sv};
constexpr std::array binomials = {"binomial"sv};
constexpr std::array linears = {"linear"sv};
constexpr std::array disseminations = {"dissemination"sv};

/// Calls `f` with an unsigned integer type of this width in bytes. The type is used to move data only: folds are
/// functions on bytes.
template <class F>
void with_width(std::size_t width, F f) {
  if (width == 1) return f(std::uint8_t{});
  if (width == 2) return f(std::uint16_t{});
  if (width == 4) return f(std::uint32_t{});
  return f(std::uint64_t{});
}

// Gloo's options take non-const pointers also for memory that is only read.
template <class T>
T* words(const std::byte* memory) {
  return reinterpret_cast<T*>(const_cast<std::byte*>(memory));
}

std::size_t rank_of(const Context& context) { return static_cast<std::size_t>(context->rank); }
std::size_t size_of(const Context& context) { return static_cast<std::size_t>(context->size); }

std::vector<std::size_t> offsets_of(const std::vector<std::size_t>& counts) {
  std::vector<std::size_t> offsets(counts.size());
  std::exclusive_scan(counts.begin(), counts.end(), offsets.begin(), std::size_t{0});
  return offsets;
}

// Divides the sum of an average by the number of ranks.
void divide(DType dtype, std::byte* data, std::size_t bytes, int ranks) {
  static constexpr std::array<std::byte, 4096> zeros{};
  const Fold fold{dtype, Op::sum, static_cast<double>(ranks)};
  for (std::size_t at = 0; at < bytes; at += zeros.size())
    fold(data + at, data + at, zeros.data(), std::min(zeros.size(), bytes - at));
}

Fold fold_of(const Collective& call) { return {call.in.dtype, call.op.op, 1.0}; }

auto function_of(const Fold& fold) {
  return [fold](void* into, const void* a, const void* b, std::size_t count) {
    fold(static_cast<std::byte*>(into), static_cast<const std::byte*>(a), static_cast<const std::byte*>(b),
         count * fold.width());
  };
}

/// Gloo's allreduce takes a plain function, so the fold of the call that runs on this thread is stored here.
thread_local Fold playing;

template <class T>
void halving_doubling(const Collective& call, const Context& context) {
  static const gloo::ReductionFunction<T> function(gloo::CUSTOM, [](T* into, const T* with, std::size_t count) {
    auto* const bytes = reinterpret_cast<std::byte*>(into);
    playing(bytes, bytes, reinterpret_cast<const std::byte*>(with), count * sizeof(T));
  });
  playing = fold_of(call);
  gloo::AllreduceHalvingDoubling<T>(context, {words<T>(call.out.data)}, static_cast<int>(call.out.count), &function)
      .run();
}

template <class T>
void allreduce(const Collective& call, std::string_view algorithm, const Context& context) {
  const bool scaled = call.op.op == Op::premul_sum, doubling = algorithm == "halving_doubling";
  if (scaled)
    scale(call.in.dtype, call.out.data, call.in.data, call.in.bytes(), call.op.factor);
  else if (doubling && call.in.data != call.out.data)
    std::memcpy(call.out.data, call.in.data, call.in.bytes());
  if (doubling) {
    halving_doubling<T>(call, context);
  } else {
    gloo::AllreduceOptions options(context);
    if (!scaled && call.in.data != call.out.data) options.setInput(words<T>(call.in.data), call.in.count);
    options.setOutput(words<T>(call.out.data), call.out.count);
    options.setReduceFunction(function_of(fold_of(call)));
    options.setAlgorithm(algorithm == "bcube" ? gloo::AllreduceOptions::Algorithm::BCUBE
                                              : gloo::AllreduceOptions::Algorithm::RING);
    gloo::allreduce(options);
  }
  if (call.op.op == Op::avg) divide(call.out.dtype, call.out.data, call.out.bytes(), context->size);
}

template <class T>
void reduce(const Collective& call, const Context& context) {
  const bool root = context->rank == call.root, scaled = call.op.op == Op::premul_sum;
  // Gloo's reduce is a ring, in which every rank needs a buffer of full size.
  const auto scratch = root ? nullptr : std::make_unique_for_overwrite<std::byte[]>(call.in.bytes());
  std::byte* const into = root ? call.out.data : scratch.get();
  if (scaled) scale(call.in.dtype, into, call.in.data, call.in.bytes(), call.op.factor);
  gloo::ReduceOptions options(context);
  if (!scaled && call.in.data != into) options.setInput(words<T>(call.in.data), call.in.count);
  options.setOutput(words<T>(into), call.in.count);
  options.setReduceFunction(function_of(fold_of(call)));
  options.setRoot(call.root);
  gloo::reduce(options);
  if (root && call.op.op == Op::avg) divide(call.out.dtype, into, call.out.bytes(), context->size);
}

template <class T>
void broadcast(const Collective& call, const Context& context) {
  gloo::BroadcastOptions options(context);
  options.setOutput(words<T>(call.out.data), call.out.count);
  options.setRoot(call.root);
  gloo::broadcast(options);
}

template <class T>
void allgather(const Collective& call, const Context& context) {
  T* const out = words<T>(call.out.data);
  if (call.variable) {
    gloo::AllgathervOptions options(context);
    const auto own = words<T>(call.out.data) + offsets_of(call.out_counts)[rank_of(context)];
    if (words<T>(call.in.data) != own) options.setInput(words<T>(call.in.data), call.in.count);
    options.setOutput(out, call.out_counts);
    return gloo::allgatherv(options);
  }
  gloo::AllgatherOptions options(context);
  if (words<T>(call.in.data) != out + rank_of(context) * call.in.count)
    options.setInput(words<T>(call.in.data), call.in.count);
  options.setOutput(out, call.out.count);
  gloo::allgather(options);
}

template <class T>
void alltoall(const Collective& call, const Context& context) {
  std::vector<T> copy;  // in place, blocks would be overwritten before they are sent
  T* in = words<T>(call.in.data);
  if (call.in.data == call.out.data) {
    copy.assign(in, in + call.in.count);
    in = copy.data();
  }
  if (!call.variable) {
    gloo::AlltoallOptions options(context);
    options.setInput(in, call.in.count);
    options.setOutput(words<T>(call.out.data), call.out.count);
    return gloo::alltoall(options);
  }
  gloo::AlltoallvOptions options(context);
  options.setInput(in, std::vector<std::int64_t>(call.in_counts.begin(), call.in_counts.end()));
  options.setOutput(words<T>(call.out.data), std::vector<std::int64_t>(call.out_counts.begin(), call.out_counts.end()));
  gloo::alltoallv(options);
}

void copy_block(std::byte* into, const std::byte* from, std::size_t bytes) {
  if (bytes > 0 && into != from) std::memmove(into, from, bytes);
}

// gatherv and scatterv on Gloo's point-to-point buffers, because Gloo's packages lack the header of gatherv, and Gloo
// has no scatterv. Nothing is sent for a count of zero.
void gather_blocks(const Collective& call, const Context& context) {
  if (context->rank != call.root) {
    if (call.in.count == 0) return;
    const auto in = context->createUnboundBuffer(words<std::byte>(call.in.data), call.in.bytes());
    in->send(call.root, 0);
    in->waitSend();
    return;
  }
  const std::size_t element = tutti::size_of(call.out.dtype), me = rank_of(context);
  const auto offsets = offsets_of(call.out_counts);
  const auto out = context->createUnboundBuffer(words<std::byte>(call.out.data), call.out.bytes());
  int receiving = 0;
  for (std::size_t rank = 0; rank < size_of(context); ++rank) {
    if (rank == me || call.out_counts[rank] == 0) continue;
    out->recv(static_cast<int>(rank), 0, offsets[rank] * element, call.out_counts[rank] * element);
    ++receiving;
  }
  copy_block(call.out.data + offsets[me] * element, call.in.data, call.in.bytes());
  while (receiving-- > 0) out->waitRecv();
}

void scatter_blocks(const Collective& call, const Context& context) {
  if (context->rank != call.root) {
    if (call.out.count == 0) return;
    const auto out = context->createUnboundBuffer(words<std::byte>(call.out.data), call.out.bytes());
    out->recv(call.root, 0);
    out->waitRecv();
    return;
  }
  const std::size_t element = tutti::size_of(call.out.dtype), me = rank_of(context);
  const auto offsets = offsets_of(call.in_counts);
  const auto in = context->createUnboundBuffer(words<std::byte>(call.in.data), call.in.bytes());
  int sending = 0;
  for (std::size_t rank = 0; rank < size_of(context); ++rank) {
    if (rank == me || call.in_counts[rank] == 0) continue;
    in->send(static_cast<int>(rank), 0, offsets[rank] * element, call.in_counts[rank] * element);
    ++sending;
  }
  copy_block(call.out.data, call.in.data + offsets[me] * element, call.out.bytes());
  while (sending-- > 0) in->waitSend();
}

template <class T>
void gather(const Collective& call, const Context& context) {
  gloo::GatherOptions options(context);
  options.setInput(words<T>(call.in.data), call.in.count);
  if (context->rank == call.root) options.setOutput(words<T>(call.out.data), call.out.count);
  options.setRoot(call.root);
  gloo::gather(options);
}

template <class T>
void scatter(const Collective& call, const Context& context) {
  gloo::ScatterOptions options(context);
  if (context->rank == call.root) {
    std::vector<T*> blocks;
    for (std::size_t rank = 0; rank < size_of(context); ++rank)
      blocks.push_back(words<T>(call.in.data) + rank * call.out.count);
    options.setInputs(blocks, call.out.count);
  }
  options.setOutput(words<T>(call.out.data), call.out.count);
  options.setRoot(call.root);
  gloo::scatter(options);
}

template <class T>
void play_as(const Collective& call, std::string_view algorithm, const Context& context) {
  switch (call.kind) {
    case Kind::allreduce: return allreduce<T>(call, algorithm, context);
    case Kind::reduce: return reduce<T>(call, context);
    case Kind::broadcast: return broadcast<T>(call, context);
    case Kind::allgather: return allgather<T>(call, context);
    case Kind::alltoall: return alltoall<T>(call, context);
    case Kind::gather: return call.variable ? gather_blocks(call, context) : gather<T>(call, context);
    case Kind::scatter: return call.variable ? scatter_blocks(call, context) : scatter<T>(call, context);
    default: {
      gloo::BarrierOptions options(context);
      return gloo::barrier(options);
    }
  }
}

}  // namespace

std::span<const std::string_view> gloo_algorithms(Kind kind) noexcept {
  switch (kind) {
    case Kind::allreduce: return allreduces;
    case Kind::reduce:
    case Kind::allgather: return rings;
    case Kind::broadcast: return binomials;
    case Kind::gather:
    case Kind::scatter:
    case Kind::alltoall: return linears;
    case Kind::barrier: return disseminations;
    case Kind::reduce_scatter:
    case Kind::send: break;
  }
  return {};
}

Status gloo_supports(const Collective& call, std::string_view algorithm) {
  const auto known = gloo_algorithms(call.kind);
  if (call.kind == Kind::reduce_scatter)
    return Status::failure(Code::unsupported, "gloo has reduce_scatter only in its old interface, with 32-bit counts");
  const std::string_view named = algorithm.empty() && !known.empty() ? known.front() : algorithm;
  if (Status able = check_algorithm_name("gloo", named, call.kind, known); !able.ok()) return able;
  if (call.in.device.kind != Device::Kind::cpu || call.out.device.kind != Device::Kind::cpu)
    return Status::failure(Code::unsupported, "the buffer is on a GPU, which gloo's tcp does not reach");
  if (folds(call.kind) && !supports(call.op.op, call.in.dtype))
    return Status::failure(Code::unsupported,
                           "gloo has no " + std::string(name(call.op.op)) + " of " + std::string(name(call.in.dtype)));
  if (algorithm == "halving_doubling" && call.in.bytes() > std::numeric_limits<int>::max() / 2)
    return Status::failure(Code::unsupported, "gloo's halving_doubling counts in 32 bits: this is more than 1 GiB");
  return {};
}

void gloo_play(const Collective& call, std::string_view algorithm, Mesh& mesh, std::uint64_t salt) {
  const DType dtype = folds(call.kind) || call.in.count > 0 ? call.in.dtype : call.out.dtype;
  // Without elements there is nothing to do, and Gloo would divide by the buffer's size, 0.
  const bool nothing = !call.variable && call.kind != Kind::barrier && call.in.count == 0 && call.out.count == 0;
  if (nothing) return;
  with_width(tutti::size_of(dtype), [&]<class T>(T) { play_as<T>(call, algorithm, mesh.context(salt)); });
}

void gloo_play_alone(const Collective& call) {
  if (call.kind == Kind::broadcast || call.kind == Kind::barrier) return;
  if (call.op.op == Op::premul_sum && folds(call.kind))
    scale(call.in.dtype, call.out.data, call.in.data, call.in.bytes(), call.op.factor);
  else
    copy_block(call.out.data, call.in.data, call.in.bytes());
}

}  // namespace tutti
