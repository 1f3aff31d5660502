// The collective and point-to-point functions of Communicator: each builds a Collective from its operands and
// launches it.
#include <utility>

#include "collectives/api/arguments.hpp"
#include "collectives/api/communicator_impl.hpp"
#include "tutti/communicator.hpp"

namespace tutti {
namespace {

Collective make(Kind kind, ConstBuffer in, Buffer out) {
  Collective call;
  call.kind = kind;
  call.in = in;
  call.out = out;
  return call;
}

Collective make(Kind kind, ConstBuffer in, Buffer out, Reduction op, int root = 0) {
  Collective call = make(kind, in, out);
  call.op = op;
  call.root = root;
  return call;
}

constexpr int shift_tag = -1;  // reserved: users' tags are not negative

Collective make_exchange(ConstBuffer in, int to, Buffer out, int from, int tag) {
  Collective call = make(Kind::send, in, out);
  call.to = to;
  call.from = from;
  call.tag = tag;
  return call;
}

std::vector<std::size_t> as_vector(std::span<const std::size_t> counts) { return {counts.begin(), counts.end()}; }

}  // namespace

Work Communicator::launch(Collective call, const CallOptions& options) { return impl_->launch(impl_, call, options); }

Work Communicator::launch(std::span<const Collective> calls, const CallOptions& options) {
  if (calls.size() == 1) return launch(calls.front(), options);
  return impl_->launch_all(impl_, {calls.begin(), calls.end()}, options);
}

Work Communicator::launch_value(Kind kind, Buffer value, Reduction op, int root, const CallOptions& options) {
  Collective call;
  call.kind = kind;
  if (kind != Kind::broadcast) call.in = value;
  call.out = value;
  call.op = op;
  call.root = root;
  return impl_->launch(impl_, call, options, true);
}

// ---- the collectives ----------------------------------------------------------------------------

Work Communicator::allreduce(Buffer data, Reduction op, const CallOptions& options) {
  return launch(make(Kind::allreduce, data, data, op), options);
}
Work Communicator::allreduce(ConstBuffer in, Buffer out, Reduction op, const CallOptions& options) {
  return launch(make(Kind::allreduce, in, out, op), options);
}
Work Communicator::reduce(Buffer data, Reduction op, int root, const CallOptions& options) {
  return launch(make(Kind::reduce, data, data, op, root), options);
}
Work Communicator::reduce(ConstBuffer in, Buffer out, Reduction op, int root, const CallOptions& options) {
  return launch(make(Kind::reduce, in, out, op, root), options);
}
Work Communicator::broadcast(Buffer data, int root, const CallOptions& options) {
  return launch(make(Kind::broadcast, {}, data, sum, root), options);
}
Work Communicator::allgather(ConstBuffer in, Buffer out, const CallOptions& options) {
  return launch(make(Kind::allgather, in, out), options);
}
Work Communicator::allgatherv(ConstBuffer in, Buffer out, std::span<const std::size_t> counts,
                              const CallOptions& options) {
  Collective call = make(Kind::allgather, in, out);
  call.variable = true;
  call.out_counts = as_vector(counts);
  return launch(std::move(call), options);
}
Work Communicator::reduce_scatter(ConstBuffer in, Buffer out, Reduction op, const CallOptions& options) {
  return launch(make(Kind::reduce_scatter, in, out, op), options);
}
Work Communicator::reduce_scatterv(ConstBuffer in, Buffer out, std::span<const std::size_t> counts, Reduction op,
                                   const CallOptions& options) {
  Collective call = make(Kind::reduce_scatter, in, out, op);
  call.variable = true;
  call.in_counts = as_vector(counts);
  return launch(std::move(call), options);
}
Work Communicator::gather(ConstBuffer in, Buffer out, int root, const CallOptions& options) {
  return launch(make(Kind::gather, in, out, sum, root), options);
}
Work Communicator::gatherv(ConstBuffer in, Buffer out, std::span<const std::size_t> counts, int root,
                           const CallOptions& options) {
  Collective call = make(Kind::gather, in, out, sum, root);
  call.variable = true;
  call.out_counts = as_vector(counts);
  return launch(std::move(call), options);
}
Work Communicator::scatter(ConstBuffer in, Buffer out, int root, const CallOptions& options) {
  return launch(make(Kind::scatter, in, out, sum, root), options);
}
Work Communicator::scatterv(ConstBuffer in, Buffer out, std::span<const std::size_t> counts, int root,
                            const CallOptions& options) {
  Collective call = make(Kind::scatter, in, out, sum, root);
  call.variable = true;
  call.in_counts = as_vector(counts);
  return launch(std::move(call), options);
}
Work Communicator::alltoall(ConstBuffer in, Buffer out, const CallOptions& options) {
  return launch(make(Kind::alltoall, in, out), options);
}
Work Communicator::alltoallv(ConstBuffer in, std::span<const std::size_t> in_counts, Buffer out,
                             std::span<const std::size_t> out_counts, const CallOptions& options) {
  Collective call = make(Kind::alltoall, in, out);
  call.variable = true;
  call.in_counts = as_vector(in_counts);
  call.out_counts = as_vector(out_counts);
  return launch(std::move(call), options);
}
Work Communicator::barrier(const CallOptions& options) { return launch(make(Kind::barrier, {}, {}), options); }

// ---- point to point -----------------------------------------------------------------------------

Work Communicator::send(ConstBuffer data, int to, int tag, const CallOptions& options) {
  check_message("send", to, tag, size());
  return launch(make_exchange(data, to, Buffer(nullptr, 0, data.dtype), -1, tag), options);
}
Work Communicator::recv(Buffer data, int from, int tag, const CallOptions& options) {
  check_message("recv", from, tag, size());
  return launch(make_exchange(ConstBuffer(nullptr, 0, data.dtype), -1, data, from, tag), options);
}
Value<int> Communicator::recv_any(Buffer data, int tag, const CallOptions& options) {
  check_message("recv_any", 0, tag, size());
  Collective call = make_exchange(ConstBuffer(nullptr, 0, data.dtype), -1, data, -1, tag);
  call.from_any = true;
  return Value<int>(launch(std::move(call), options));
}
Work Communicator::sendrecv(ConstBuffer in, int to, Buffer out, int from, int tag, const CallOptions& options) {
  for (const int peer : {to, from}) check_message("sendrecv", peer, tag, size());
  return launch(make_exchange(in, to, out, from, tag), options);
}
Work Communicator::shift(ConstBuffer in, Buffer out, int offset, const CallOptions& options) {
  const int n = size(), by = ((offset % n) + n) % n;
  return launch(make_exchange(in, (rank() + by) % n, out, (rank() + n - by) % n, shift_tag), options);
}

}  // namespace tutti
