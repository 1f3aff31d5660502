// Under sanitizers memory accesses take ten times as long, so tests play fewer sizes.
#pragma once

namespace tutti::testing {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
inline constexpr bool thinned = true;
#else
inline constexpr bool thinned = false;
#endif

}  // namespace tutti::testing
