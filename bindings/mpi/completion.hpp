// What MPI's functions that complete requests do for those of tutti before they call MPI's, in C and in Fortran.
#pragma once

#include "bindings/mpi/interception.hpp"

namespace tutti::preload {

/// The calls library if tutti has open requests; else null.
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

/// Waits until one request at least is done. While there are open ones of tutti it asks MPI's `test`, which returns
/// MPI's result and sets its argument if something is done; after that it calls MPI's `wait`.
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
