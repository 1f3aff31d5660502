// What the diagnosis looks for in processes and hosts. Each function returns nothing if there is no such finding.
#pragma once

#include <optional>
#include <string>

#include "collectives/doctor/diagnosis.hpp"
#include "collectives/doctor/waits.hpp"

namespace tutti::doctor {

using Found = std::optional<Finding>;

/// Processes that are gone without an end of the library.
Found find_lost(const Job& job);
/// A communicator that has failed.
Found find_failure(const Job& job);
/// Stopped processes for which others wait.
Found find_stopped(const Job& job, const Waits& waits);
/// Hosts that do not answer while others wait for their ranks.
Found find_silent(const Job& job, const Waits& waits);
/// What there is to say of a job in which no call is stuck.
Finding nothing_stuck(const Job& job);

/// The ranks that have been connecting for longer than the job's patience.
std::vector<int> late_to_connect(const Job& job);
/// A sentence about each host that does not answer; empty if all do.
std::string silence_text(const Job& job);
/// "no data pass between ranks 0, 1 on h1 and ranks 2, 3 on h2", if all waits cross from one host to another.
std::string partition_text(const Job& job, const Waits& waits);

}  // namespace tutti::doctor
