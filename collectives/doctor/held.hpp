// The call in which others wait for a rank, as the findings of a diagnosis tell it.
#pragma once

#include <string>
#include <vector>

#include "collectives/doctor/waits.hpp"

namespace tutti::doctor {

/// The waits for one rank in one call.
struct Held {
  const RecordedCall* call = nullptr;  ///< null: nobody waits for it
  std::vector<int> waiters = {};
  Time since = 0;  ///< the longest wait's start
};

/// Chooses the call in which others wait for `rank`. A send or receive that lacks its counterpart is usually the cause
/// if collectives wait for the same rank, even if these began a little earlier.
Held held_by(const Waits& waits, int rank);
/// The ranks that wait for `rank` in a call.
std::vector<int> waiters_in(const Waits& waits, const RecordedCall& call, int rank);

inline bool is_exchange(const RecordedCall& call) { return call.what == RecordedCall::What::exchange; }

/// " has" or " have".
std::string have(const std::vector<int>& ranks);

/// "ranks 0, 1 and 3 have waited for it for 12 s": who waits, and since when.
std::string waiters_text(const Job& job, const std::vector<int>& waiters, Time since);

}  // namespace tutti::doctor
