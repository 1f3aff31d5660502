// The use of MPI in this process: initialised once, serialised if MPI requires it, and finalised at exit.
#pragma once

#include <mpi.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "transports/mpi/handles.hpp"
#include "transports/mpi/library.hpp"
#include "tutti/status.hpp"

namespace tutti::mpi {

/// One per process; never destroyed.
class Session {
 public:
  /// Initialises MPI if the program has not. Throws Error{unsupported, resource}.
  static Session& begin(const Settings& settings);

  const Functions& call;
  const Handles handles;

  /// Held around MPI calls: a lock if MPI allows only one thread at a time, otherwise empty.
  std::unique_lock<std::recursive_mutex> turn();

  /// The MPI operation: MPI's own if its results are as tutti specifies them, otherwise one that calls tutti's fold.
  MPI_Op op(Op op, DType dtype) const;
  MPI_Datatype type(DType dtype) const { return handles.types[static_cast<std::size_t>(dtype)]; }

  /// A datatype of `count` elements, also beyond 2^31, that begin `at` bytes after the buffer's address. The caller
  /// frees it.
  MPI_Datatype many(std::size_t count, DType dtype, std::size_t at);

  /// The communicator whose ranks are the job's.
  MPI_Comm world(std::int64_t base) const;
  /// Throws Error if MPI's ranks differ from the job's.
  void check_ranks(std::int64_t base, int world_size, int world_rank);

  /// Ok, or a failure with MPI's text for `code`.
  Status status(int code, const char* function) const;
  /// As status(), but throws the failure.
  void check(int code, const char* function) const;

  /// Counts the users of MPI, which is not finalised while there are any.
  void join() noexcept;
  void leave() noexcept;
  /// True if MPI cannot be called any more: it is finalised, or this is a forked child.
  bool ended() const;
  bool ending() const noexcept { return ending_.load(std::memory_order_relaxed); }
  /// Keeps a communicator until MPI_Finalize(), because a member that leaves later may still send on it. MPI_Finalize()
  /// then begins with receiving the messages that are left on it.
  void free_at_end(MPI_Comm comm);
  /// Declares that an operation will never complete. tutti then does not finalise MPI, since that would wait for it.
  void keep() noexcept { kept_.store(true); }

 private:
  Session(const Library& library, bool ours, int level);
  static void at_exit();
  static int at_finalize(MPI_Comm, int, void* session, void*);
  void call_at_finalize();
  void finalize() noexcept;
  void empty(MPI_Comm comm);
  void create_ops();

  const bool ours_;        // MPI was initialised here, and is finalised here
  const bool one_thread_;  // MPI allows one thread at a time
  const std::uint32_t generation_;
  std::recursive_mutex mutex_;
  std::array<std::array<MPI_Op, dtype_count>, op_count> ops_ = {};
  std::mutex users_mutex_;
  int users_ = 0;
  bool exiting_ = false;
  std::atomic<bool> kept_{false}, ending_{false};
  std::vector<MPI_Comm> leaving_;  // guarded by users_mutex_
};

/// An MPI communicator of some ranks of the job.
class Comm {
 public:
  /// Collective over `members` (world ranks, including this one), without a deadline: see meet(). `base` is the
  /// communicator whose ranks are the job's. `name` distinguishes communicators made at the same time. Throws Error.
  Comm(Session& session, std::int64_t base, int world_rank, const std::vector<int>& members, std::uint64_t name);
  /// Frees the communicator at once; after linger() keeps it until MPI_Finalize(); after abandon() never frees it.
  ~Comm();
  Comm(const Comm&) = delete;
  Comm& operator=(const Comm&) = delete;

  Session& session() const noexcept { return session_; }
  MPI_Comm get() const noexcept { return comm_; }
  int rank() const noexcept { return rank_; }
  int size() const noexcept { return size_; }
  /// Declares that MPI may use the communicator forever.
  void abandon() noexcept;
  void linger() noexcept { lingers_ = true; }

 private:
  Session& session_;
  MPI_Comm comm_;
  int rank_ = 0, size_ = 1;
  bool abandoned_ = false, lingers_ = false;
};

}  // namespace tutti::mpi
