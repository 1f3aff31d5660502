// For programs that use MPI themselves: makes a Communicator of the ranks of an MPI communicator. No other header of
// tutti includes mpi.h. Compile this header with the program's own MPI compiler and flags, which determine mpi.h.
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

/// A duplicate of the program's communicator for tutti, so that messages of tutti and of the program never match. Lives
/// as long as the store.
struct OwnComm {
  explicit OwnComm(MPI_Comm comm) { MPI_Comm_dup(comm, &own); }
  ~OwnComm() {
    if (fork_generation() != generation) return;  // a forked child must not call MPI, which belongs to the parent
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

/// Makes a communicator of all ranks of `comm`, in their order. Collective over `comm`, which is duplicated once. MPI
/// must be initialised; destroy all copies of the Communicator, and its groups, before MPI_Finalize. The backend and
/// the transport `mpi` need MPI_THREAD_SERIALIZED or MPI_THREAD_MULTIPLE. Without MPI_THREAD_MULTIPLE, no other thread
/// may be in a call of MPI, or in a call of tutti that uses MPI, during this call and while the last of these
/// Communicators is destroyed. Throws Error.
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
