// ProcessGroup: the ranks along an axis of a mesh, with collectives on tensors, counted.
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

#include "collectives/api/communicator.hpp"
#include "collectives/mesh/box_exchange.hpp"
#include "collectives/mesh/cut.hpp"
#include "collectives/mesh/mesh.hpp"
#include "nn/site.hpp"

namespace tutti::nn {

/// Calls and what this rank gave to them. An exchange of boxes counts as alltoall, with what leaves this rank.
struct Traffic {
  std::uint64_t calls = 0, bytes = 0;
  bool operator==(const Traffic&) const = default;
};

/// What the layers of nn/parallel talk through. Layers of one axis share one. Calls block until their result is there,
/// take tensors of any strides, and leave them as they are; all ranks call alike. A group of one sends nothing.
/// Threads: one at a time.
class ProcessGroup {
 public:
  explicit ProcessGroup(Communicator communicator, std::string name = "the communicator");
  /// The ranks along these axes (see Mesh). Collective among them. An axis that the mesh lacks is a group of one.
  ProcessGroup(const Mesh& mesh, std::string_view axes);

  /// Rank `rank` of a group that is only planned: layers can be made for it, and asked for their sizes and bytes, but
  /// collectives throw Error{unsupported} unless it is a group of one.
  ProcessGroup(int rank, int size, std::string name) : rank_(rank), size_(size), name_(std::move(name)) {}

  int rank() const noexcept { return rank_; }
  int size() const noexcept { return size_; }
  /// Of more than one rank; a group of one made from a mesh has none, nor has one that is planned.
  const std::optional<Communicator>& communicator() const noexcept { return communicator_; }
  const std::string& name() const noexcept { return name_; }  ///< "tensor of mesh data 2 x tensor 4"
  const std::string& axes() const noexcept { return axes_; }  ///< "height,width"; empty where it is of no mesh

  at::Tensor allreduce(const at::Tensor& values, Reduction op = sum);
  /// Root's values; the others give a tensor of the same shape.
  at::Tensor broadcast(const at::Tensor& values, int root = 0);
  /// The ranks' parts one after the other along `dim`; cut[rank()] is this one's.
  at::Tensor allgather(const at::Tensor& part, std::int64_t dim, const Cut& cut);
  /// Of the reduction of all ranks' values, this rank's part along `dim`.
  at::Tensor reduce_scatter(const at::Tensor& values, std::int64_t dim, const Cut& cut, Reduction op = sum);
  /// From parts along `from` to parts along `to`, another dimension.
  at::Tensor alltoall(const at::Tensor& part, std::int64_t from, const Cut& cut, std::int64_t to, const Cut& new_cut);

  /// What is on its way; the tensors are kept until it is finished.
  struct Pending {
    at::Tensor sent, received;
    Work work;
  };
  /// The exchange of a plan (collectives/mesh/box_exchange.hpp). The plan's dimensions are the last ones of the
  /// tensors.
  Pending start(const BoxPlan& plan, const at::Tensor& tile);
  at::Tensor finish(const BoxPlan& plan, const at::Tensor& tile, const Pending& pending);  ///< the box `want`
  /// Every value of a chunk goes back to where its position is at home, and is added up there.
  Pending start_adjoint(const BoxPlan& plan, const at::Tensor& chunk);
  at::Tensor finish_adjoint(const BoxPlan& plan, const at::Tensor& chunk, const Pending& pending);  ///< the box `have`

  /// Since the last reset.
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
  std::shared_ptr<Site> site_;
  std::array<Traffic, kind_count> traffic_ = {};
};

using Group = std::shared_ptr<ProcessGroup>;
inline Group group_of(const Mesh& mesh, std::string_view axes) { return std::make_shared<ProcessGroup>(mesh, axes); }
inline Group group_of(Communicator communicator) { return std::make_shared<ProcessGroup>(std::move(communicator)); }

/// Sizes of a tensor whose first dimensions are `leading` and whose last ones are the box.
std::vector<std::int64_t> sizes_of(at::IntArrayRef leading, const Box& box);

/// The box of a whole tensor.
Box whole_box(at::IntArrayRef sizes);

/// The part `part` of a tensor whose last dimensions are `box`: a view.
at::Tensor slice(const at::Tensor& values, const Box& box, const Box& part);

}  // namespace tutti::nn
