#include "transports/core/barrier.hpp"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace tutti {

bool detail::reached_by_heavy_barriers() noexcept {
  return ::syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) == 0;
}

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wtsan"  // TSan cannot see accesses of other processes anyway
#endif
void detail::full_barrier() noexcept { std::atomic_thread_fence(std::memory_order_seq_cst); }

void heavy_barrier() noexcept {
  detail::full_barrier();
  ::syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0);  // if refused, light_barrier() is a full one
}

}  // namespace tutti
