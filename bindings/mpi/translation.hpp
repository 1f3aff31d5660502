// An MPI call as one of tutti: buffers as elements or bytes, MPI_IN_PLACE as tutti has it.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>

#include "bindings/mpi/call.hpp"
#include "bindings/mpi/communicators.hpp"
#include "bindings/mpi/staging.hpp"
#include "bindings/mpi/types.hpp"
#include "transports/core/collective.hpp"

namespace tutti::preload {

/// "Allreduce".
const char* function_name(Function function) noexcept;
bool is_reduction(Function function) noexcept;

/// Where the result of this rank is: nothing where it has none.
struct Output {
  Part part;
  int blocks = 1;
};
std::optional<Output> output_of(const Call& call, const Known& known);

/// Owns the copies that the call needs. Stays where it is while the call runs. Throws Error{invalid} for arguments that
/// MPI forbids.
class Translation {
 public:
  /// `folding`: of a reduction.
  Translation(const Call& call, const Known& known, const std::optional<Folding>& folding);
  Translation(const Translation&) = delete;
  Translation& operator=(const Translation&) = delete;

  const Collective& collective() const noexcept { return collective_; }
  /// Once, when the call has ended well: brings the result to where the program wants it.
  void finish();

 private:
  void translate(const Call& call, const std::optional<Folding>& folding);
  void reduce(const Call& call, const Folding& folding);
  void scatter_reduced(const Call& call, const Folding& folding);
  void broadcast(const Call& call);
  void gather(const Call& call, bool everywhere);
  void scatter(const Call& call);
  void exchange(const Call& call);
  ConstBuffer read(Side& side);

  const int rank_, size_;
  Collective collective_;
  std::optional<Side> in_, out_;
  Scratch copy_;
  std::function<void()> at_end_;
};

}  // namespace tutti::preload
