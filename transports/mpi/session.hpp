// MPI as this process uses it: begun once, used by one thread at a time where it asks for that, ended at exit.
#pragma once

#include <mpi.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "transports/core/status.hpp"
#include "transports/mpi/handles.hpp"
#include "transports/mpi/library.hpp"

namespace tutti::mpi {

/// One for the process; it is there for ever.
class Session {
 public:
  /// Begins MPI where nobody has. Throws Error{unsupported, resource}.
  static Session& begin(const Settings& settings);

  const Functions& call;
  const Handles handles;

  /// Held around calls of MPI: a lock where MPI wants one thread at a time, else nothing.
  std::unique_lock<std::recursive_mutex> turn();

  /// The operation for MPI: its own where that does what tutti promises, else one of ours.
  MPI_Op op(Op op, DType dtype) const;
  MPI_Datatype type(DType dtype) const { return handles.types[static_cast<std::size_t>(dtype)]; }

  /// `count` elements as one, also beyond 2^31; `at` bytes from where the buffer begins. To be freed.
  MPI_Datatype many(std::size_t count, DType dtype, std::size_t at);

  /// The communicator whose ranks are the job's.
  MPI_Comm world(std::int64_t base) const;
  /// Throws Error where MPI counts the ranks otherwise than the job.
  void check_ranks(std::int64_t base, int world_size, int world_rank);

  /// Ok, or what MPI says of `code`.
  Status status(int code, const char* function) const;
  /// Throws it.
  void check(int code, const char* function) const;

  /// Who uses MPI is counted, so that it is not ended under anybody's feet.
  void join() noexcept;
  void leave() noexcept;
  /// MPI can no longer be called: it has ended, or this is a forked child.
  bool ended() const;
  bool ending() const noexcept { return ending_.load(std::memory_order_relaxed); }
  /// Takes a communicator whose members leave at different times, and frees it when all end MPI: until then somebody
  /// may still send on it.
  void free_at_end(MPI_Comm comm);
  /// Something of ours can never end: MPI is not finalised then, which would wait for it.
  void keep() noexcept { kept_.store(true); }

 private:
  Session(const Library& library, bool ours, int level);
  static void at_exit();
  static int at_finalize(MPI_Comm, int, void* session, void*);
  void call_at_finalize();
  void finalize() noexcept;
  void empty(MPI_Comm comm);
  void create_ops();

  const bool ours_;        // we have begun MPI, so that we end it
  const bool one_thread_;  // at a time
  const std::uint32_t generation_;
  std::recursive_mutex mutex_;
  std::array<std::array<MPI_Op, dtype_count>, op_count> ops_ = {};
  std::mutex users_mutex_;
  int users_ = 0;
  bool exiting_ = false;
  std::atomic<bool> kept_{false}, ending_{false};
  std::vector<MPI_Comm> leaving_;  // with users_mutex_
};

/// An MPI communicator of some ranks of the job, of our own.
class Comm {
 public:
  /// Collective among `members` (world ranks, this one's among them), without a deadline: see meet(). `base`: whose
  /// ranks are the job's. `name` sets apart what is made at the same time. Throws Error.
  Comm(Session& session, std::int64_t base, int world_rank, const std::vector<int>& members, std::uint64_t name);
  /// Frees it, now or, after linger(), at the end of MPI; never after abandon().
  ~Comm();
  Comm(const Comm&) = delete;
  Comm& operator=(const Comm&) = delete;

  Session& session() const noexcept { return session_; }
  MPI_Comm get() const noexcept { return comm_; }
  int rank() const noexcept { return rank_; }
  int size() const noexcept { return size_; }
  /// MPI still works on it, and will for ever.
  void abandon() noexcept;
  void linger() noexcept { lingers_ = true; }

 private:
  Session& session_;
  MPI_Comm comm_;
  int rank_ = 0, size_ = 1;
  bool abandoned_ = false, lingers_ = false;
};

}  // namespace tutti::mpi
