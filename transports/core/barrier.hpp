// An asymmetric memory barrier, for a flag that is read often and set rarely.
//
// One thread stores A, calls light_barrier() and loads B; the other stores B, calls heavy_barrier() and loads A. At
// least one of them sees the other's store. heavy_barrier() makes every running thread of the participating processes
// execute a full barrier (membarrier(2), Linux 4.16). Where the kernel lacks it, light_barrier() is a full barrier
// itself.
#pragma once

#include <atomic>

namespace tutti {

namespace detail {
/// True if heavy_barrier() covers this process; the first call registers the process.
bool reached_by_heavy_barriers() noexcept;
void full_barrier() noexcept;
}  // namespace detail

inline void light_barrier() noexcept {
  static const bool reached = detail::reached_by_heavy_barriers();
  if (reached)
    std::atomic_signal_fence(std::memory_order_seq_cst);
  else
    detail::full_barrier();
}

void heavy_barrier() noexcept;

}  // namespace tutti
