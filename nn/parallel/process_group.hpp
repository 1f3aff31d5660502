// ProcessGroup: the communicator of an axis of a mesh, with collectives on tensors and counts of their traffic.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nn/tensor_device.hpp"
#include "tutti/box_exchange.hpp"
#include "tutti/communicator.hpp"
#include "tutti/cut.hpp"
#include "tutti/mesh.hpp"

namespace tutti::nn {

/// Number of calls, and bytes that this rank passed to them. A box exchange counts as alltoall, with the bytes sent to
/// other ranks.
struct Traffic {
  std::uint64_t calls = 0, bytes = 0;
  bool operator==(const Traffic&) const = default;
};

/// The communicator that the layers of nn/parallel use; layers on the same axis share one. Collectives block, accept
/// tensors with any strides and do not change them; start() and start_adjoint() do not block. All ranks make the same
/// calls in the same order. A group of one rank sends nothing. One thread at a time.
class ProcessGroup {
 public:
  explicit ProcessGroup(Communicator communicator, std::string name = "the communicator");
  /// The ranks along these axes (see Mesh). Collective over those ranks. For an axis that the mesh lacks, the group has
  /// one rank.
  ProcessGroup(const Mesh& mesh, std::string_view axes);

  /// Rank `rank` of a group that is planned but not connected. Layers can be made for it to compute sizes and traffic;
  /// collectives throw Error{unsupported} unless `size` is 1.
  ProcessGroup(int rank, int size, std::string name) : rank_(rank), size_(size), name_(std::move(name)) {}

  int rank() const noexcept { return rank_; }
  int size() const noexcept { return size_; }
  /// Empty for a planned group and for a group of one rank made from a mesh.
  const std::optional<Communicator>& communicator() const noexcept { return communicator_; }
  const std::string& name() const noexcept { return name_; }  ///< "tensor of mesh data 2 x tensor 4"
  /// "height,width"; empty if the group was not made from a mesh
  const std::string& axes() const noexcept { return axes_; }

  at::Tensor allreduce(const at::Tensor& values, Reduction op = sum);
  /// The values of root. The other ranks pass a tensor of the same shape.
  at::Tensor broadcast(const at::Tensor& values, int root = 0);
  /// Concatenates the ranks' parts along `dim`; this rank's part has the size of cut[rank()].
  at::Tensor allgather(const at::Tensor& part, std::int64_t dim, const Cut& cut);
  /// This rank's part, cut[rank()] along `dim`, of the reduction over all ranks.
  at::Tensor reduce_scatter(const at::Tensor& values, std::int64_t dim, const Cut& cut, Reduction op = sum);
  /// Converts parts along dimension `from` to parts along dimension `to`; the dimensions differ.
  at::Tensor alltoall(const at::Tensor& part, std::int64_t from, const Cut& cut, std::int64_t to, const Cut& new_cut);

  /// A box exchange in flight; keeps its buffers alive.
  struct Pending {
    at::Tensor sent, received;
    Work work;
  };
  /// Starts the exchange of a plan (tutti/box_exchange.hpp). The boxes refer to the last dimensions of the
  /// tensors. finish() blocks and returns the box `want`.
  Pending start(const BoxPlan& plan, const at::Tensor& tile);
  at::Tensor finish(const BoxPlan& plan, const at::Tensor& tile, const Pending& pending);
  /// The adjoint: each value of `chunk` is sent back to the rank that holds its position, which adds up the values it
  /// receives. finish_adjoint() returns the box `have`.
  Pending start_adjoint(const BoxPlan& plan, const at::Tensor& chunk);
  at::Tensor finish_adjoint(const BoxPlan& plan, const at::Tensor& chunk, const Pending& pending);

  /// The traffic since the last reset.
  Traffic traffic(Kind kind) const noexcept { return traffic_[static_cast<std::size_t>(kind)]; }
  Traffic traffic() const noexcept;  ///< of all kinds
  void reset_traffic() noexcept { traffic_ = {}; }

 private:
  void count(Kind kind, const at::Tensor& given);
  CallOptions options(const at::Tensor& values);
  Pending start(const std::vector<BoxPlan::Piece>& gives, const std::vector<BoxPlan::Piece>& takes, const Box& from,
                const at::Tensor& values);

  std::optional<Communicator> communicator_;
  int rank_ = 0, size_ = 1;
  std::string name_, axes_;
  std::shared_ptr<TensorDevice> tensor_device_;
  std::array<Traffic, kind_count> traffic_ = {};
};

using Group = std::shared_ptr<ProcessGroup>;
inline Group group_of(const Mesh& mesh, std::string_view axes) { return std::make_shared<ProcessGroup>(mesh, axes); }
inline Group group_of(Communicator communicator) { return std::make_shared<ProcessGroup>(std::move(communicator)); }

/// The sizes `leading`, followed by those of the box.
std::vector<std::int64_t> sizes_of(at::IntArrayRef leading, const Box& box);

/// The box of a whole tensor.
Box whole_box(at::IntArrayRef sizes);

/// A view of the part `part` of a tensor whose last dimensions are `box`.
at::Tensor slice(const at::Tensor& values, const Box& box, const Box& part);

}  // namespace tutti::nn
