// The interface between the preload and the calls library. The preload exports MPI's functions and links only the C
// library. After MPI's initialisation it opens the calls library, which links libtutti and makes the calls.
#pragma once

#include <atomic>

#include "bindings/mpi/call.hpp"

namespace tutti::preload {

/// The functions of the calls library, which is used if all ranks can use tutti. The functions do not throw; they
/// return MPI error codes. Any thread, within the program's MPI thread level.
struct Engine {
  /// Makes a blocking call, with tutti or with MPI.
  int (*run)(const Call& call, const Original& original);
  /// Starts a nonblocking call, with tutti or with MPI. With tutti it stores the new request in `request`; otherwise
  /// MPI's function stores its own.
  int (*start)(const Call& call, MPI_Request* request, const Original& original);

  /// The number of tutti's open requests. While it is 0, all requests are MPI's.
  const std::atomic<int>* open;
  /// Waits for all requests of the list that are tutti's.
  void (*complete)(int count, const MPI_Request* requests);
  /// Completes the requests of the list that are tutti's and done. Returns the number of tutti's requests that are not
  /// done. Does not wait.
  int (*settle)(int count, const MPI_Request* requests);
  /// Waits for any of tutti's requests in the list for less than a millisecond, and lets MPI make progress.
  void (*pause)(int count, const MPI_Request* requests);

  /// Called before MPI_Finalize: waits for open requests, and disconnects together with the other ranks.
  void (*finalize)();
};

/// The calls library exports such a function under the name below. `library` is MPI's dlopen() handle. Collective over
/// MPI_COMM_WORLD of more than one rank. Returns null on all ranks, after a warning, if a rank cannot use tutti.
using Begin = const Engine* (*)(void* library);
inline constexpr const char* begin_name = "tutti_mpi_begin";

}  // namespace tutti::preload
