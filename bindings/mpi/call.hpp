// A collective call of MPI as a value: one form for all functions, for counts of int and of MPI_Count.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>

namespace tutti::preload {

enum class Function : std::uint8_t {
  allreduce,
  bcast,
  reduce,
  allgather,
  allgatherv,
  reduce_scatter,
  reduce_scatter_block,
  alltoall,
  alltoallv,
  gather,
  gatherv,
  scatter,
  scatterv,
  barrier
};
inline constexpr int function_count = 14;

/// A list of counts or displacements as the program has it, of 32 or 64 bits. Borrowed.
class Numbers {
 public:
  Numbers() = default;
  Numbers(const int* list) noexcept : list_(list), wide_(false) {}
  Numbers(const long* list) noexcept : list_(list), wide_(true) {}
  Numbers(const long long* list) noexcept : list_(list), wide_(true) {}
  std::int64_t operator[](int i) const noexcept {
    return wide_ ? static_cast<const std::int64_t*>(list_)[i] : static_cast<const int*>(list_)[i];
  }
  bool empty() const noexcept { return list_ == nullptr; }

 private:
  const void* list_ = nullptr;
  bool wide_ = false;
};
static_assert(sizeof(long) == 8 && sizeof(long long) == 8);

/// A buffer among the arguments: `count` elements of `type`, in each block where there is one for every rank; or
/// counts[i] of them at `displs[i]` extents from `data`.
struct Part {
  void* data = nullptr;
  std::int64_t count = 0;
  MPI_Datatype type = {};
  Numbers counts = {}, displs = {};
};

/// Reductions have their count and type in both parts, MPI_Reduce_scatter its counts in `out`; MPI_Bcast has `out`
/// alone.
struct Call {
  Function function = Function::barrier;
  MPI_Comm comm = {};
  Part in = {}, out = {};
  MPI_Op op = {};
  int root = 0;
};

/// The call as the program made it, for MPI itself. Borrowed.
struct Original {
  int (*make)(const void* closure);
  const void* closure;
  int operator()() const { return make(closure); }
};

}  // namespace tutti::preload
