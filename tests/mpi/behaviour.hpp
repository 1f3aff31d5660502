// Common parts of the scenes of behaviour.cpp.
#pragma once

#include <mpi.h>

#include <cstdio>

namespace behaviour {

inline int rank = 0, size = 1, failures = 0;

inline void expect(bool right, const char* what) {
  if (right) return;
  std::printf("rank %d: %s\n", rank, what);
  ++failures;
}

inline int sum_of_ranks(int of) { return of * (of - 1) / 2; }

inline void expect_sum(MPI_Comm comm) {
  int sum = 0, mine = 0, members = 0;
  MPI_Comm_rank(comm, &mine);
  MPI_Comm_size(comm, &members);
  MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, comm);
  expect(sum == sum_of_ranks(members), "a sum is wrong");
}

inline int class_of(int code) {
  int found = MPI_SUCCESS;
  MPI_Error_class(code, &found);
  return found;
}

/// A type of every third int.
inline MPI_Datatype made_type(bool committed) {
  MPI_Datatype type;
  MPI_Type_vector(8, 1, 3, MPI_INT, &type);
  if (committed) MPI_Type_commit(&type);
  return type;
}

// Scenes of wrong calls.
void errors();
void in_place();
void refused();
void refused_by_mpi();
void refused_twice();
void refused_by_tutti();
void refused_of_every_kind();
void refused_for_memory();

}  // namespace behaviour
