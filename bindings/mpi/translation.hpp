// Converts an MPI call to a Collective. Buffers become elements or bytes; MPI_IN_PLACE becomes tutti's form of it.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>

#include "bindings/mpi/call.hpp"
#include "bindings/mpi/communicators.hpp"
#include "bindings/mpi/staging.hpp"
#include "bindings/mpi/types.hpp"
#include "tutti/collective.hpp"

namespace tutti::preload {

/// The name without "MPI_": "Allreduce".
const char* function_name(Function function) noexcept;
bool is_reduction(Function function) noexcept;

/// The buffer that receives this rank's result; nullopt if it has none.
struct Output {
  Part part;
  int blocks = 1;
};
std::optional<Output> output_of(const Call& call, const Known& known);

/// A converted call, with the copies that it needs. Must not be moved or destroyed while the call runs. Throws
/// BadArgument for arguments that MPI does not allow.
class Translation {
 public:
  /// `folding` is set for reductions.
  Translation(const Call& call, const Known& known, const std::optional<Folding>& folding);
  Translation(const Translation&) = delete;
  Translation& operator=(const Translation&) = delete;

  const Collective& collective() const noexcept { return collective_; }
  /// For a nonblocking call: makes finish() independent of the program's datatypes, which the program may free at once.
  void outlive_the_call();
  /// Copies the result to the program's buffer. Called once, when the call has succeeded.
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
