// Completes tutti's requests in MPI_Wait, MPI_Test and their kin, before these call MPI. For C and for Fortran.
#pragma once

#include "bindings/mpi/interception.hpp"

namespace tutti::preload {

/// The interface to the library that makes tutti's calls, if tutti has open requests; else null.
inline const Engine* concerned() noexcept {
  const Engine* const mine = engine();
  return mine != nullptr && mine->open->load(std::memory_order_acquire) > 0 ? mine : nullptr;
}

inline void complete(int count, const MPI_Request* requests) {
  if (const Engine* const mine = concerned()) mine->complete(count, requests);
}
inline void settle(int count, const MPI_Request* requests) {
  if (const Engine* const mine = concerned()) mine->settle(count, requests);
}

/// Waits until at least one request is done. While tutti has open requests in the list, it polls with `test`, a call of
/// MPI that returns MPI's result and sets its argument if a request is done. Without such requests it calls `wait`.
template <class Test, class Wait>
int wait_for_some(int count, const MPI_Request* requests, const Test& test, const Wait& wait) {
  const Engine* const mine = concerned();
  while (mine != nullptr && mine->settle(count, requests) > 0) {
    bool some = false;
    const int result = test(some);
    if (result != MPI_SUCCESS || some) return result;
    mine->pause(count, requests);
  }
  return wait();
}

}  // namespace tutti::preload
