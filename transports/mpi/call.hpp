// MpiCall: one collective performed by MPI.
#pragma once

#include <string>
#include <vector>

#include "transports/core/layout.hpp"
#include "transports/mpi/session.hpp"
#include "tutti/provider/backend.hpp"

namespace tutti::mpi {

/// The MPI requests of one call, and the memory that MPI uses besides the caller's.
///
/// MPI's counts are ints, and some implementations overflow. So reductions, broadcasts and messages go in parts of 64
/// MiB, and other MPI functions are used if all blocks together have 2 GiB or more. The choice depends only on values
/// that are equal on all ranks. All calls hold the progress token (the context's lock).
class MpiCall final : private Tracker {
 public:
  MpiCall(Session& session, const Comm& comm, Call& call)
      : session_(session), comm_(comm), made_by_(call), call_(call.what) {}
  /// Precondition: MPI uses none of the call's memory any more. The Call may be destroyed already.
  ~MpiCall();
  MpiCall(const MpiCall&) = delete;
  MpiCall& operator=(const MpiCall&) = delete;

  /// Starts the MPI operations. If it throws Error, requests() has the operations that it started before.
  void issue();
  /// Call it when all requests have completed. Divides the sum of an average, and copies the result to its place.
  void complete();

  /// The buffer for a copy of the input. The owner sets it before issue() and takes it back at the end, for the next
  /// call: page faults would cost more than the copy.
  std::vector<std::byte>& memory() noexcept { return input_; }

  std::vector<MPI_Request>& requests() noexcept { return requests_; }
  Call& call() const noexcept { return made_by_; }
  const char* function() const noexcept { return function_; }
  const Tracker& tracker() const noexcept { return *this; }

  std::size_t open = 0;  ///< requests that have not completed; used by the owner
  Status failure;        ///< the first failure; used by the owner

 private:
  /// The blocks of a buffer, in elements.
  struct Blocks {
    std::vector<std::size_t> sizes, offsets;
    std::size_t total = 0;
  };

  std::string where(const Call&) const override { return std::string("in ") + function_ + " of MPI"; }
  const Functions& mpi() const noexcept { return session_.call; }
  DType dtype() const noexcept { return common_dtype(call_); }
  std::size_t width() const noexcept { return size_of(dtype()); }
  MPI_Datatype type() const { return session_.type(dtype()); }
  MPI_Op op() const { return session_.op(call_.op.op, dtype()); }
  std::size_t size() const noexcept { return static_cast<std::size_t>(comm_.size()); }
  std::size_t me() const noexcept { return static_cast<std::size_t>(comm_.rank()); }
  bool at_root() const noexcept { return comm_.rank() == call_.root; }
  std::byte* out(std::size_t element = 0) const noexcept { return call_.out.data + element * width(); }

  void allreduce();
  void reduce();
  void allgather();
  void reduce_scatter();
  void gather();
  void scatter();
  void alltoall();
  void exchange();

  Blocks blocks(const std::vector<std::size_t>& counts, std::size_t each) const;
  bool fits(const Blocks& blocks) const noexcept;
  void list(const Blocks& blocks);
  const std::byte* operand();
  const std::byte* copied(const std::byte* from, std::size_t count);
  void keep_own_block(const Blocks& blocks);
  void fold_at(int root, const std::byte* from, std::byte* into, std::size_t count);
  void spread_from(int root, std::byte* data, std::size_t count);
  void send(const std::byte* from, std::size_t count, int to);
  void receive(std::byte* into, std::size_t count, int from);
  template <class Function>
  void ask(const char* name, const Function& function);
  template <class Function>
  void in_parts(std::size_t count, const Function& function) const;

  Session& session_;
  const Comm& comm_;
  Call& made_by_;
  const Collective& call_;
  const char* function_ = "MPI";
  std::vector<MPI_Request> requests_;
  std::byte* result_ = nullptr;  // where the `result_count_` elements of a reduction are
  std::size_t result_count_ = 0;
  // Memory that MPI uses until the call has completed.
  std::vector<std::byte> input_, output_;
  std::vector<int> counts_, places_;
  std::vector<MPI_Datatype> types_in_, types_out_;
  std::vector<MPI_Datatype> made_;  // datatypes to free
};

}  // namespace tutti::mpi
