// What stands between the two libraries: the preload, which has MPI's names and nothing else, and what it opens when
// MPI has been initialised, which has libtutti and does the work.
#pragma once

#include <atomic>

#include "bindings/mpi/call.hpp"

namespace tutti::preload {

/// Functions of a process whose ranks all use tutti. They throw nothing and return what an MPI function returns. Any
/// thread, as the program's level of threads has it.
struct Engine {
  /// A blocking call: over tutti, or the original.
  int (*run)(const Call& call, const Original& original);
  /// A call that ends later, over tutti with a request in `request`; or the original, which writes it.
  int (*start)(const Call& call, MPI_Request* request, const Original& original);

  /// Requests of tutti that have not been seen to end. While there are none, requests are MPI's affair alone.
  const std::atomic<int>* open;
  /// Waits for those of `count` requests that are tutti's.
  void (*complete)(int count, const MPI_Request* requests);
  /// Ends those of tutti's that are done, without waiting, and returns how many of the list go on.
  int (*settle)(int count, const MPI_Request* requests);
  /// Waits for any of tutti's among them for less than a millisecond, and gives MPI a turn.
  void (*pause)(int count, const MPI_Request* requests);

  /// Before MPI_Finalize: waits for what is open, and leaves the job together with the other ranks.
  void (*finalize)();
};

/// What the opened library exports, by its name below. `library` is MPI's handle of dlopen(). Collective over
/// MPI_COMM_WORLD, which has more than one rank. Null, on all ranks alike and after a warning, where one of them
/// cannot.
using Begin = const Engine* (*)(void* library);
inline constexpr const char* begin_name = "tutti_mpi_begin";

}  // namespace tutti::preload
