// Ranks that say that they are under way, so that a test can break one then and not before.
#pragma once

#include <string>

#include "tutti/clock.hpp"
#include "tutti/store.hpp"

namespace tutti::testing {

inline std::string going_key(int rank) { return "going/" + std::to_string(rank); }

/// Rank `rank` of those that meet in `folder` is under way.
inline void say_going(const std::string& folder, int rank) { make_file_store(folder)->set(going_key(rank), "1"); }

/// Returns when ranks 0..size-1 are; throws Error{timeout} after a minute.
inline void wait_until_going(const std::string& folder, int size) {
  const auto store = make_file_store(folder);
  for (int rank = 0; rank < size; ++rank) store->wait(going_key(rank), deadline_in(Seconds(60)));
}

}  // namespace tutti::testing
