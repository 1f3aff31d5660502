// For programs that use MPI themselves: a Communicator of the ranks of an MPI communicator. The only header of tutti
// that sees mpi.h, which it takes from the program's compiler: compile it as the rest of the program.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "tutti/bootstrap.hpp"
#include "tutti/communicator.hpp"
#include "tutti/fork.hpp"

namespace tutti {
namespace detail {

/// A communicator of tutti's own, so that none of the program's messages meets one of tutti's. Lives as long as the
/// store.
struct OwnComm {
  explicit OwnComm(MPI_Comm comm) { MPI_Comm_dup(comm, &own); }
  ~OwnComm() {
    if (fork_generation() != generation) return;  // in a child, MPI is the parent's
    int finalized = 0;
    MPI_Finalized(&finalized);
    if (!finalized) MPI_Comm_free(&own);
  }
  OwnComm(const OwnComm&) = delete;
  OwnComm& operator=(const OwnComm&) = delete;
  MPI_Comm own = MPI_COMM_NULL;
  const std::uint32_t generation = fork_generation();
  std::shared_ptr<Store> store;
};

}  // namespace detail

/// A world of the ranks of `comm`, in their order. Collective over `comm`, which is duplicated once. MPI must be
/// initialised, and the Communicator must go before MPI is finalised. The backend and the transport `mpi` want
/// MPI_THREAD_SERIALIZED or MPI_THREAD_MULTIPLE. With less than the latter this call, and the end of the last
/// Communicator that comes of it, are calls of MPI like the program's own: no other thread may be in MPI, nor in a
/// call of tutti that uses it. Throws Error.
inline Communicator from_mpi(MPI_Comm comm, const Settings& settings = Settings::from_environment()) {
  const auto ours = std::make_shared<detail::OwnComm>(comm);
  CommonLibrary library;
  library.name = "MPI";
  library.native = MPI_Comm_c2f(ours->own);
  MPI_Comm_rank(comm, &library.rank);
  MPI_Comm_size(comm, &library.size);
  library.broadcast = [&](std::string& text) {
    MPI_Bcast(text.data(), static_cast<int>(text.size()), MPI_CHAR, 0, ours->own);
  };
  library.allgather = [&](const std::string& mine, std::string& all) {
    const int bytes = static_cast<int>(mine.size());
    MPI_Allgather(mine.data(), bytes, MPI_CHAR, all.data(), bytes, MPI_CHAR, ours->own);
  };
  Bootstrap bootstrap = bootstrap_over(library, settings);
  ours->store = std::move(bootstrap.store);
  bootstrap.store = std::shared_ptr<Store>(ours, ours->store.get());
  return Communicator::connect(bootstrap);
}

}  // namespace tutti
