// Ranks signal that their calls are in flight, so that a test does not break one earlier.
#pragma once

#include <string>

#include "tutti/clock.hpp"
#include "tutti/store.hpp"

namespace tutti::testing {

inline std::string going_key(int rank) { return "going/" + std::to_string(rank); }

/// Signals that rank `rank` is ready, to the process that waits with the same `folder`.
inline void say_going(const std::string& folder, int rank) { make_file_store(folder)->set(going_key(rank), "1"); }

/// Returns when ranks 0..size-1 have signalled; throws Error{timeout} after a minute.
inline void wait_until_going(const std::string& folder, int size) {
  const auto store = make_file_store(folder);
  for (int rank = 0; rank < size; ++rank) store->wait(going_key(rank), deadline_in(Seconds(60)));
}

}  // namespace tutti::testing
