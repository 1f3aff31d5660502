// Requests of tutti's nonblocking calls. For MPI they are generalized requests. The program's thread that waits or
// tests completes them, never a thread of tutti.
#pragma once

#include <mpi.h>

#include <atomic>
#include <memory>

#include "bindings/mpi/communicators.hpp"
#include "bindings/mpi/shadow.hpp"
#include "bindings/mpi/translation.hpp"
#include "tutti/work.hpp"

namespace tutti::preload {

/// A nonblocking call in flight. `work` is declared after its operands, so that it is destroyed before them.
struct Open {
  std::shared_ptr<Known> known;
  MPI_Comm comm;
  std::unique_ptr<Translation> translation;
  std::unique_ptr<Shadow> shadow;  ///< with TUTTI_MPI_CHECK
  Work work;
  int* result = nullptr;  ///< the error code that MPI_Wait returns; owned by the generalized request
};

/// The number of requests in flight.
const std::atomic<int>& open_requests() noexcept;

/// Makes an MPI request for the call. Returns MPI's result.
int add_request(Open open, MPI_Request* request);

// The functions complete, settle and pause of Engine.
void complete_requests(int count, const MPI_Request* requests);
int settle_requests(int count, const MPI_Request* requests);
void pause_for_requests(int count, const MPI_Request* requests);

/// Waits for all requests and completes them. Called before MPI_Finalize.
void end_requests() noexcept;

}  // namespace tutti::preload
