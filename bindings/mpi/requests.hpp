// Requests of calls that tutti carries out: to MPI they are generalized requests, which are ended in the thread of the
// program that waits or tests, and never in one of ours.
#pragma once

#include <mpi.h>

#include <atomic>
#include <memory>

#include "bindings/mpi/communicators.hpp"
#include "bindings/mpi/shadow.hpp"
#include "bindings/mpi/translation.hpp"
#include "transports/core/work.hpp"

namespace tutti::preload {

/// A call in flight. `work` goes first.
struct Open {
  std::shared_ptr<Known> known;
  MPI_Comm comm;
  std::unique_ptr<Translation> translation;
  std::unique_ptr<Shadow> shadow;  ///< where calls are checked
  Work work;
  int* result = nullptr;  ///< what MPI_Wait returns; lives as long as the request
};

/// How many there are.
const std::atomic<int>& open_requests() noexcept;

/// Makes a request for it. Returns what MPI does.
int add_request(Open open, MPI_Request* request);

// See Engine.
void complete_requests(int count, const MPI_Request* requests);
int settle_requests(int count, const MPI_Request* requests);
void pause_for_requests(int count, const MPI_Request* requests);

/// Waits for all, before MPI_Finalize.
void end_requests() noexcept;

}  // namespace tutti::preload
