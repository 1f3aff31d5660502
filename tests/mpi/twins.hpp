// Common parts of the cases: patterns, comparisons, and calls in blocking and nonblocking form.
#pragma once

#include <mpi.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

namespace twins {

using Memory = std::vector<unsigned char>;

struct Where {
  MPI_Comm comm;
  int rank, size;
};

inline bool with_requests = false, brief = false;
inline std::map<std::string, int> made;
inline int failures = 0;

inline void note(std::string function) {
  if (with_requests) function = "I" + std::string(1, static_cast<char>(std::tolower(function[0]))) + function.substr(1);
  ++made[function];
}

/// A pattern that differs by rank, call and position; values are small enough for sums and products.
inline void fill(Memory& memory, int seed) {
  for (std::size_t i = 0; i < memory.size(); ++i)
    memory[i] = static_cast<unsigned char>((i * 7 + static_cast<std::size_t>(seed) * 13) % 251);
}

inline void expect_equal(const Memory& ours, const Memory& theirs, const std::string& what, const Where& where) {
  if (ours == theirs) return;
  std::size_t at = 0;
  while (ours[at] == theirs[at]) ++at;
  std::printf("rank %d of %d: %s differs at byte %zu of %zu: %d and not %d\n", where.rank, where.size, what.c_str(), at,
              ours.size(), ours[at], theirs[at]);
  ++failures;
}

inline void finish(MPI_Request request) {
  static int turn = 0;
  if (turn++ % 2 == 0) {
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    return;
  }
  for (int done = 0; !done;) MPI_Test(&request, &done, MPI_STATUS_IGNORE);
}

/// Makes a call in blocking or nonblocking form. `taken`: true if a preload should take it.
template <class Blocking, class Starting, class... Arguments>
inline void perform(bool taken, const char* name, Blocking blocking, Starting starting, Arguments... arguments) {
  if (taken) note(name);
  if (!with_requests) {
    blocking(arguments...);
    return;
  }
  MPI_Request request;
  starting(arguments..., &request);
  finish(request);
}

void reductions(const Where& where);
void moves(const Where& where);

}  // namespace twins
