// An MPI collective as a value: one form for all functions, with int and MPI_Count counts.
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

/// An array of counts or displacements of 32 or 64 bits, borrowed from the program.
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

/// A buffer argument: `count` elements of `type` (per block, if the buffer has a block per rank); or, for each rank i,
/// counts[i] elements at a distance of displs[i] extents from `data`.
struct Part {
  void* data = nullptr;
  std::int64_t count = 0;
  MPI_Datatype type = {};
  Numbers counts = {}, displs = {};
};

/// In reductions both `in` and `out` have the count and the type; MPI_Reduce_scatter has its counts in `out`. MPI_Bcast
/// uses only `out`.
struct Call {
  Function function = Function::barrier;
  MPI_Comm comm = {};
  Part in = {}, out = {};
  MPI_Op op = {};
  int root = 0;
};

/// Makes the program's call with MPI's own function. Borrowed.
struct Original {
  int (*make)(const void* closure);
  const void* closure;
  int operator()() const { return make(closure); }
};

}  // namespace tutti::preload
