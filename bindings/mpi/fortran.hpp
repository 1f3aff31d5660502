// Fortran functions of MPI that the preload must export besides the C functions, because they call PMPI functions
// directly. Open MPI: all functions of mpif.h and of the module mpi_f08. MPICH and its derivatives: the functions of
// mpi_f08 without a buffer. All other Fortran functions call the C functions.
//
// With every compiler, all arguments are addresses. In mpi_f08, the argument for the result may be absent (null).
#pragma once

#include <algorithm>
#include <cstdlib>
#include <iterator>

#include "bindings/mpi/completion.hpp"
#include "bindings/mpi/initialization.hpp"

namespace tutti::preload::fortran {

using Fint = MPI_Fint;

#ifdef OPEN_MPI
/// The addresses of Fortran's variables MPI_IN_PLACE and MPI_BOTTOM, in each compiler's spelling of the symbol. Set by
/// find_fortran_addresses().
inline constexpr int spellings = 4;
extern const void* in_places[2 * spellings];
extern const void* bottoms[2 * spellings];

/// Converts a Fortran buffer address to the C one: MPI_IN_PLACE and MPI_BOTTOM have other values in C.
inline void* at(void* data) noexcept {
  if (std::ranges::find(in_places, data) != std::end(in_places)) return MPI_IN_PLACE;
  if (std::ranges::find(bottoms, data) != std::end(bottoms)) return MPI_BOTTOM;
  return data;
}
inline MPI_Comm comm_of(const Fint* comm) { return call_original<"PMPI_Comm_f2c", MPI_Comm>(*comm); }
inline MPI_Datatype type_of(const Fint* type) { return call_original<"PMPI_Type_f2c", MPI_Datatype>(*type); }
inline MPI_Op op_of(const Fint* op) { return call_original<"PMPI_Op_f2c", MPI_Op>(*op); }
inline MPI_Request request_of(Fint request) { return call_original<"PMPI_Request_f2c", MPI_Request>(request); }
inline Fint of_request(MPI_Request request) { return call_original<"PMPI_Request_c2f", Fint>(request); }
#else
inline MPI_Comm comm_of(const Fint* comm) { return MPI_Comm_f2c(*comm); }
inline MPI_Request request_of(Fint request) { return MPI_Request_f2c(request); }
inline Fint of_request(MPI_Request request) { return MPI_Request_c2f(request); }
#endif

inline void give(Fint* result, int value) noexcept {
  if (result != nullptr) *result = value;
}

/// Calls MPI's Fortran function and returns its result.
template <Name name, class... Arguments>
int call_fortran(Arguments... arguments) {
  Fint result = MPI_SUCCESS;
  call_found<find_next_function, name, void>(arguments..., &result);
  return result;
}

/// Makes a blocking collective; `describe` converts its arguments.
template <Name name, class Describe, class... Arguments>
void run_call(Fint* result, const Describe& describe, Arguments... arguments) {
  const auto original = [&] { return call_fortran<name>(arguments...); };
  const auto make = [](const void* closure) { return (*static_cast<decltype(original)*>(closure))(); };
  const Engine* const mine = engine();
  give(result, mine != nullptr ? mine->run(describe(arguments...), {make, &original}) : original());
}

template <Name name, class Describe, class... Arguments>
void start_call(Fint* request, Fint* result, const Describe& describe, Arguments... arguments) {
  bool by_mpi = false;
  const auto original = [&] {
    by_mpi = true;
    return call_fortran<name>(arguments..., request);
  };
  const auto make = [](const void* closure) { return (*static_cast<decltype(original)*>(closure))(); };
  const Engine* const mine = engine();
  if (mine == nullptr) return give(result, original());
  MPI_Request made{};
  const int code = mine->start(describe(arguments...), &made, {make, &original});
  if (!by_mpi && code == MPI_SUCCESS) *request = of_request(made);
  give(result, code);
}

/// The C handles of Fortran requests; empty if tutti has no open requests.
class Requests {
 public:
  Requests(int count, const Fint* requests) {
    if (concerned() == nullptr || count <= 0) return;
    if (count > static_cast<int>(std::size(few_)))
      handles_ = static_cast<MPI_Request*>(std::malloc(static_cast<std::size_t>(count) * sizeof(MPI_Request)));
    if (handles_ == nullptr) give_up("no memory for the handles of requests", "");
    count_ = count;
    for (int i = 0; i < count; ++i) handles_[i] = request_of(requests[i]);
  }
  Requests(const Requests&) = delete;
  Requests& operator=(const Requests&) = delete;
  ~Requests() {
    if (handles_ != few_) std::free(handles_);
  }
  int count() const noexcept { return count_; }
  const MPI_Request* handles() const noexcept { return handles_; }

 private:
  MPI_Request few_[16];
  MPI_Request* handles_ = few_;
  int count_ = 0;
};

inline void complete_these(int count, const Fint* list) {
  const Requests requests(count, list);
  complete(requests.count(), requests.handles());
}
inline void settle_these(int count, const Fint* list) {
  const Requests requests(count, list);
  settle(requests.count(), requests.handles());
}

/// MPI_Waitany, made of the functions `waitany` and `testany` of one Fortran interface.
template <Name waitany, Name testany>
void wait_for_any(Fint* count, Fint* requests, Fint* index, void* status, Fint* result) {
  const Requests converted(*count, requests);
  const auto test = [&](bool& some) {
    Fint done = 0;
    const int code = call_fortran<testany>(count, requests, index, &done, status);
    some = done != 0;
    return code;
  };
  const auto wait = [&] { return call_fortran<waitany>(count, requests, index, status); };
  give(result, wait_for_some(converted.count(), converted.handles(), test, wait));
}

/// MPI_Waitsome.
template <Name waitsome, Name testsome>
void wait_for_several(Fint* count, Fint* requests, Fint* done, Fint* indices, void* statuses, Fint* result) {
  const Requests converted(*count, requests);
  const auto test = [&](bool& some) {
    const int code = call_fortran<testsome>(count, requests, done, indices, statuses);
    some = *done != 0;
    return code;
  };
  const auto wait = [&] { return call_fortran<waitsome>(count, requests, done, indices, statuses); };
  give(result, wait_for_some(converted.count(), converted.handles(), test, wait));
}

// The conversion of each function's arguments to a Call.
#ifdef OPEN_MPI
inline Call as_allreduce(void* in, void* out, Fint* count, Fint* type, Fint* op, Fint* comm) {
  return allreduce(at(in), at(out), *count, type_of(type), op_of(op), comm_of(comm));
}
inline Call as_reduce(void* in, void* out, Fint* count, Fint* type, Fint* op, Fint* root, Fint* comm) {
  return reduce(at(in), at(out), *count, type_of(type), op_of(op), *root, comm_of(comm));
}
inline Call as_reduce_scatter(void* in, void* out, Fint* counts, Fint* type, Fint* op, Fint* comm) {
  return reduce_scatter(at(in), at(out), counts, type_of(type), op_of(op), comm_of(comm));
}
inline Call as_reduce_scatter_block(void* in, void* out, Fint* count, Fint* type, Fint* op, Fint* comm) {
  return reduce_scatter_block(at(in), at(out), *count, type_of(type), op_of(op), comm_of(comm));
}
inline Call as_bcast(void* data, Fint* count, Fint* type, Fint* root, Fint* comm) {
  return bcast(at(data), *count, type_of(type), *root, comm_of(comm));
}
inline Call as_allgather(void* in, Fint* in_count, Fint* in_type, void* out, Fint* out_count, Fint* out_type,
                         Fint* comm) {
  return blocks(Function::allgather, at(in), *in_count, type_of(in_type), at(out), *out_count, type_of(out_type),
                comm_of(comm));
}
inline Call as_alltoall(void* in, Fint* in_count, Fint* in_type, void* out, Fint* out_count, Fint* out_type,
                        Fint* comm) {
  return blocks(Function::alltoall, at(in), *in_count, type_of(in_type), at(out), *out_count, type_of(out_type),
                comm_of(comm));
}
inline Call as_gather(void* in, Fint* in_count, Fint* in_type, void* out, Fint* out_count, Fint* out_type, Fint* root,
                      Fint* comm) {
  return blocks(Function::gather, at(in), *in_count, type_of(in_type), at(out), *out_count, type_of(out_type),
                comm_of(comm), *root);
}
inline Call as_scatter(void* in, Fint* in_count, Fint* in_type, void* out, Fint* out_count, Fint* out_type, Fint* root,
                       Fint* comm) {
  return blocks(Function::scatter, at(in), *in_count, type_of(in_type), at(out), *out_count, type_of(out_type),
                comm_of(comm), *root);
}
inline Call as_allgatherv(void* in, Fint* in_count, Fint* in_type, void* out, Fint* counts, Fint* displs,
                          Fint* out_type, Fint* comm) {
  return gathered(Function::allgatherv, at(in), *in_count, type_of(in_type), at(out), counts, displs, type_of(out_type),
                  comm_of(comm));
}
inline Call as_gatherv(void* in, Fint* in_count, Fint* in_type, void* out, Fint* counts, Fint* displs, Fint* out_type,
                       Fint* root, Fint* comm) {
  return gathered(Function::gatherv, at(in), *in_count, type_of(in_type), at(out), counts, displs, type_of(out_type),
                  comm_of(comm), *root);
}
inline Call as_scatterv(void* in, Fint* counts, Fint* displs, Fint* in_type, void* out, Fint* out_count, Fint* out_type,
                        Fint* root, Fint* comm) {
  return scatterv(at(in), counts, displs, type_of(in_type), at(out), *out_count, type_of(out_type), *root,
                  comm_of(comm));
}
inline Call as_alltoallv(void* in, Fint* in_counts, Fint* in_displs, Fint* in_type, void* out, Fint* out_counts,
                         Fint* out_displs, Fint* out_type, Fint* comm) {
  return alltoallv(at(in), in_counts, in_displs, type_of(in_type), at(out), out_counts, out_displs, type_of(out_type),
                   comm_of(comm));
}
#endif
inline Call as_barrier(Fint* comm) { return barrier(comm_of(comm)); }

}  // namespace tutti::preload::fortran
