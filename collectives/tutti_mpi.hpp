// For programs that use MPI themselves: a Communicator of the ranks of an MPI communicator. The only header of tutti
// that sees mpi.h, which it takes from the program's compiler: compile it as the rest of the program.
#pragma once

#include <mpi.h>

#include <memory>
#include <string>
#include <utility>

#include "collectives/bootstrap/common_library.hpp"
#include "collectives/communicator.hpp"

namespace tutti {
namespace detail {

/// A communicator of tutti's own, so that none of the program's messages meets one of tutti's. Lives as long as the
/// store.
struct OwnComm {
  explicit OwnComm(MPI_Comm comm) { MPI_Comm_dup(comm, &own); }
  ~OwnComm() {
    int finalized = 0;
    MPI_Finalized(&finalized);
    if (!finalized) MPI_Comm_free(&own);
  }
  OwnComm(const OwnComm&) = delete;
  OwnComm& operator=(const OwnComm&) = delete;
  MPI_Comm own = MPI_COMM_NULL;
  std::shared_ptr<Store> store;
};

}  // namespace detail

/// A world of the ranks of `comm`, in their order. Collective over `comm`, which is duplicated once. MPI must be
/// initialised, and the Communicator must go before MPI is finalised. The backend and the transport `mpi` want
/// MPI_THREAD_SERIALIZED or MPI_THREAD_MULTIPLE. Throws Error.
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
