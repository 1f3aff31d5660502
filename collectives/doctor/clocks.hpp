// Clocks: the recordings of several hosts on one clock.
#pragma once

#include <string>
#include <vector>

#include "collectives/doctor/job.hpp"

namespace tutti::doctor {

/// How far the clock of a host is ahead of the others', and how wrong that may be.
struct HostClock {
  std::string host;
  Time ahead = 0, error = 0;
};

/// The error of a clock of which nothing has been measured.
inline constexpr Time unknown_clock = 600'000'000'000;

/// The clocks of all hosts of the patients: as measured or, of a host that is not among `measured`, unknown. Calls that
/// synchronize make them better: no rank ends such a call before the last rank has begun it. A clock changes by no more
/// than its error.
std::vector<HostClock> clocks_of(const std::vector<Patient>& patients, const std::vector<HostClock>& measured);

/// Takes what a host's clock is ahead from all times of its ranks.
void align(std::vector<Patient>& patients, const std::vector<HostClock>& clocks);

}  // namespace tutti::doctor
