// Ranks as threads of the test's own process: each gets a Communicator of one job.
#pragma once

#include <functional>
#include <string>

#include "tutti/communicator.hpp"
#include "tutti/settings.hpp"

namespace tutti::testing {

/// Runs `body` on `size` threads, each with its world. If ranks throw, throws std::runtime_error after all threads have
/// ended, with the rank and the text of the first exception.
void run_ranks(int size, const Settings& settings, const std::function<void(Communicator& world)>& body);

/// The same with different settings for each rank: `settings_of(rank)`.
void run_ranks(int size, const std::function<Settings(int rank)>& settings_of,
               const std::function<void(Communicator& world)>& body);

/// Settings for tests: `transport`, a deadline of 60 s.
Settings test_settings(const std::string& transport);

}  // namespace tutti::testing
