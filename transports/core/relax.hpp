// The pause instruction for spin loops.
#pragma once

#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>
#endif

namespace tutti {

/// Tells the processor that this is a spin loop: saves power, gives time to the other hardware thread of the core, and
/// avoids a misprediction at the end of the loop. On aarch64 it is `isb`, which waits some 10 ns, because `yield`
/// usually does nothing.
inline void relax() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");
#elif defined(__powerpc64__)
  asm volatile("or 27,27,27" ::: "memory");
#else
  asm volatile("" ::: "memory");
#endif
}

}  // namespace tutti
