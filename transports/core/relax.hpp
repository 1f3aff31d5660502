// What a loop that spins does between two looks.
#pragma once

#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>
#endif

namespace tutti {

/// Tells the processor that this is a spin: it saves power, leaves its core's other thread room, and the loop
/// ends without a misprediction's cost. On aarch64 `isb` waits some 10 ns, where `yield` is mostly nothing at all.
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
