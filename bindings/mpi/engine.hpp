// The interface between the preload, which exports MPI's functions and links nothing else, and the library that it
// opens after MPI's initialisation, which links libtutti and makes the calls.
#pragma once

#include <atomic>

#include "bindings/mpi/call.hpp"

namespace tutti::preload {

/// The functions of that library; it is used if all ranks can use tutti. They do not throw, and return MPI error codes.
/// Any thread, within the program's MPI thread level.
struct Engine {
  /// Makes a blocking call, with tutti or with MPI.
  int (*run)(const Call& call, const Original& original);
  /// Starts a nonblocking call: with tutti, and stores its request in `request`; or with MPI, which stores it.
  int (*start)(const Call& call, MPI_Request* request, const Original& original);

  /// The number of tutti's open requests. While it is 0, all requests are MPI's.
  const std::atomic<int>* open;
  /// Waits for those of the requests that are tutti's.
  void (*complete)(int count, const MPI_Request* requests);
  /// Completes those of tutti's requests that are done, without waiting, and returns the number of the others.
  int (*settle)(int count, const MPI_Request* requests);
  /// Waits for any of tutti's requests for less than a millisecond, and lets MPI make progress.
  void (*pause)(int count, const MPI_Request* requests);

  /// Called before MPI_Finalize: waits for open requests, and disconnects together with the other ranks.
  void (*finalize)();
};

/// Exported by the library under the name below. `library` is MPI's dlopen() handle. Collective over MPI_COMM_WORLD,
/// which has more than one rank. Returns null on all ranks, after a warning, if a rank cannot use tutti.
using Begin = const Engine* (*)(void* library);
inline constexpr const char* begin_name = "tutti_mpi_begin";

}  // namespace tutti::preload
