#include "nn/parallel/process_group.hpp"

#include <ATen/Functions.h>
#include <c10/core/WrapDimMinimal.h>
#include <c10/util/accumulate.h>

#include <utility>

#include "nn/tensor.hpp"

namespace tutti::nn {
namespace {

/// The number of elements of each rank's part, with `each` elements per position.
std::vector<std::size_t> counts_of(const Cut& cut, std::int64_t each) {
  std::vector<std::size_t> counts;
  for (int part = 0; part < cut.parts(); ++part) counts.push_back(static_cast<std::size_t>(cut[part].size() * each));
  return counts;
}

/// `values` with dimension `dim` first, contiguous: the layout of a collective's blocks.
at::Tensor blocks(const at::Tensor& values, std::int64_t dim) { return values.movedim(dim, 0).contiguous(); }

std::vector<std::int64_t> with(at::IntArrayRef sizes, std::int64_t first) {
  std::vector<std::int64_t> changed(sizes.begin(), sizes.end());
  changed[0] = first;
  return changed;
}

/// The sizes before the dimensions of the box.
at::IntArrayRef leading(const at::Tensor& values, const Box& box) {
  return values.sizes().slice(0, static_cast<std::size_t>(values.dim()) - box.size());
}

/// Calls `each(piece, view)` for every piece. The view has the piece's shape; it is the piece's part of `packed`, in
/// which the pieces are contiguous.
template <class Each>
void for_each_piece(const std::vector<BoxPlan::Piece>& pieces, const at::Tensor& packed, const at::Tensor& like,
                    const Each& each) {
  std::int64_t at = 0;
  for (const BoxPlan::Piece& piece : pieces) {
    const std::int64_t count = c10::multiply_integers(leading(like, piece.box)) * volume(piece.box);
    each(piece, packed.narrow(0, at, count).view(sizes_of(leading(like, piece.box), piece.box)));
    at += count;
  }
}

}  // namespace

std::vector<std::int64_t> sizes_of(at::IntArrayRef leading, const Box& box) {
  std::vector<std::int64_t> sizes = leading.vec();
  for (const Interval side : box) sizes.push_back(side.size());
  return sizes;
}

Box whole_box(at::IntArrayRef sizes) {
  Box box;
  for (const std::int64_t size : sizes) box.push_back({0, size});
  return box;
}

at::Tensor slice(const at::Tensor& values, const Box& box, const Box& part) {
  at::Tensor found = values;
  const std::int64_t first = values.dim() - static_cast<std::int64_t>(box.size());
  for (std::size_t d = 0; d < box.size(); ++d)
    found = found.narrow(first + static_cast<std::int64_t>(d), part[d].empty() ? 0 : part[d].begin - box[d].begin,
                         part[d].size());
  return found;
}

ProcessGroup::ProcessGroup(Communicator communicator, std::string name)
    : communicator_(std::move(communicator)),
      rank_(communicator_->rank()),
      size_(communicator_->size()),
      name_(std::move(name)) {}

ProcessGroup::ProcessGroup(const Mesh& mesh, std::string_view axes)
    : rank_(mesh.rank(axes)),
      size_(mesh.size(axes)),
      name_(std::string(axes) + " of mesh " + mesh.name()),
      axes_(axes) {
  if (size_ > 1) communicator_ = mesh[axes];
}

Traffic ProcessGroup::traffic() const noexcept {
  Traffic all;
  for (const Traffic& one : traffic_) all = {all.calls + one.calls, all.bytes + one.bytes};
  return all;
}

void ProcessGroup::count(Kind kind, const at::Tensor& given) {
  if (!communicator_) throw Error(Code::unsupported, name_ + " is only planned: it has nobody to talk to");
  Traffic& traffic = traffic_[static_cast<std::size_t>(kind)];
  ++traffic.calls;
  traffic.bytes += given.nbytes();
}

CallOptions ProcessGroup::options(const at::Tensor& values) {
  if (!tensor_device_ || tensor_device_->tensors() != values.device())
    tensor_device_ = tensor_device_of(values.device(), *communicator_);
  tensor_device_->note_computed();
  return tensor_device_->options();
}

at::Tensor ProcessGroup::allreduce(const at::Tensor& values, Reduction op) {
  if (size() == 1) return values;
  at::Tensor result = values.clone(at::MemoryFormat::Contiguous);
  count(Kind::allreduce, result);
  communicator_->allreduce(buffer(result), op, options(result)).wait();
  return result;
}

at::Tensor ProcessGroup::broadcast(const at::Tensor& values, int root) {
  if (size() == 1) return values;
  at::Tensor result = values.clone(at::MemoryFormat::Contiguous);
  count(Kind::broadcast, result);
  communicator_->broadcast(buffer(result), root, options(result)).wait();
  return result;
}

at::Tensor ProcessGroup::allgather(const at::Tensor& part, std::int64_t dim, const Cut& cut) {
  if (size() == 1) return part;
  dim = c10::maybe_wrap_dim(dim, part.dim());
  const at::Tensor mine = blocks(part, dim);
  at::Tensor all = at::empty(with(mine.sizes(), cut.extent()), mine.options());
  const std::int64_t each = cut.extent() == 0 ? 0 : all.numel() / cut.extent();
  count(Kind::allgather, mine);
  communicator_->allgatherv(buffer(mine), buffer(all), counts_of(cut, each), options(mine)).wait();
  return all.movedim(0, dim).contiguous();
}

at::Tensor ProcessGroup::reduce_scatter(const at::Tensor& values, std::int64_t dim, const Cut& cut, Reduction op) {
  if (size() == 1) return values;
  dim = c10::maybe_wrap_dim(dim, values.dim());
  const at::Tensor all = blocks(values, dim);
  at::Tensor mine = at::empty(with(all.sizes(), cut[rank()].size()), all.options());
  const std::int64_t each = cut.extent() == 0 ? 0 : all.numel() / cut.extent();
  count(Kind::reduce_scatter, all);
  communicator_->reduce_scatterv(buffer(all), buffer(mine), counts_of(cut, each), op, options(all)).wait();
  return mine.movedim(0, dim).contiguous();
}

at::Tensor ProcessGroup::alltoall(const at::Tensor& part, std::int64_t from, const Cut& cut, std::int64_t to,
                                  const Cut& new_cut) {
  if (size() == 1) return part;
  from = c10::maybe_wrap_dim(from, part.dim()), to = c10::maybe_wrap_dim(to, part.dim());
  std::vector<at::Tensor> leaving, coming;
  std::vector<std::size_t> sends, gets;
  for (int peer = 0; peer < size(); ++peer) {
    leaving.push_back(part.narrow(to, new_cut[peer].begin, new_cut[peer].size()).reshape({-1}));
    sends.push_back(static_cast<std::size_t>(leaving.back().numel()));
  }
  std::vector<std::int64_t> sizes = part.sizes().vec();
  sizes[static_cast<std::size_t>(to)] = new_cut[rank()].size();
  std::int64_t total = 0;
  for (int peer = 0; peer < size(); ++peer) {
    sizes[static_cast<std::size_t>(from)] = cut[peer].size();
    gets.push_back(static_cast<std::size_t>(c10::multiply_integers(sizes)));
    total += c10::multiply_integers(sizes);
  }
  const at::Tensor sent = at::cat(leaving).contiguous();
  at::Tensor received = at::empty({total}, part.options());
  count(Kind::alltoall, sent);
  communicator_->alltoallv(buffer(sent), sends, buffer(received), gets, options(sent)).wait();
  std::int64_t at = 0;
  for (int peer = 0; peer < size(); ++peer) {
    sizes[static_cast<std::size_t>(from)] = cut[peer].size();
    const std::int64_t elements = c10::multiply_integers(sizes);
    coming.push_back(received.narrow(0, at, elements).view(sizes));
    at += elements;
  }
  return at::cat(coming, from);
}

ProcessGroup::Pending ProcessGroup::start(const std::vector<BoxPlan::Piece>& gives,
                                          const std::vector<BoxPlan::Piece>& takes, const Box& from,
                                          const at::Tensor& values) {
  const std::int64_t each = c10::multiply_integers(leading(values, from));
  std::vector<std::size_t> sends(static_cast<std::size_t>(size())), gets(sends);
  std::int64_t sent = 0, received = 0;
  for (const BoxPlan::Piece& piece : gives)
    sent += each * volume(piece.box),
        sends[static_cast<std::size_t>(piece.peer)] = static_cast<std::size_t>(each * volume(piece.box));
  for (const BoxPlan::Piece& piece : takes)
    received += each * volume(piece.box),
        gets[static_cast<std::size_t>(piece.peer)] = static_cast<std::size_t>(each * volume(piece.box));
  Pending pending{at::empty({sent}, values.options()), at::empty({received}, values.options()), Work()};
  if (size() == 1) return pending;
  for_each_piece(gives, pending.sent, values, [&](const BoxPlan::Piece& piece, const at::Tensor& view) {
    view.copy_(slice(values, from, piece.box));
  });
  count(Kind::alltoall, pending.sent);
  CallOptions how = options(values);
  if (values.is_cpu()) how.algorithm = "linear";  // sends to all peers in one round
  pending.work = communicator_->alltoallv(buffer(pending.sent), sends, buffer(pending.received), gets, how);
  return pending;
}

ProcessGroup::Pending ProcessGroup::start(const BoxPlan& plan, const at::Tensor& tile) {
  return start(plan.gives, plan.takes, plan.have, tile);
}

at::Tensor ProcessGroup::finish(const BoxPlan& plan, const at::Tensor& tile, const Pending& pending) {
  Work(pending.work).wait();
  if (plan.takes.empty() && plan.have == plan.want) return tile;
  at::Tensor chunk = at::empty(sizes_of(leading(tile, plan.want), plan.want), tile.options());
  if (volume(plan.kept) > 0) slice(chunk, plan.want, plan.kept).copy_(slice(tile, plan.have, plan.kept));
  for_each_piece(plan.takes, pending.received, tile, [&](const BoxPlan::Piece& piece, const at::Tensor& view) {
    slice(chunk, plan.want, piece.box).copy_(view);
  });
  return chunk;
}

ProcessGroup::Pending ProcessGroup::start_adjoint(const BoxPlan& plan, const at::Tensor& chunk) {
  return start(plan.takes, plan.gives, plan.want, chunk);
}

at::Tensor ProcessGroup::finish_adjoint(const BoxPlan& plan, const at::Tensor& chunk, const Pending& pending) {
  at::Tensor tile = at::zeros(sizes_of(leading(chunk, plan.have), plan.have), chunk.options());
  if (volume(plan.kept) > 0) slice(tile, plan.have, plan.kept).copy_(slice(chunk, plan.want, plan.kept));
  Work(pending.work).wait();
  for_each_piece(plan.gives, pending.received, chunk, [&](const BoxPlan::Piece& piece, const at::Tensor& view) {
    slice(tile, plan.have, piece.box).add_(view);
  });
  return tile;
}

}  // namespace tutti::nn
