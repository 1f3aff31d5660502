// Admission: how processes join a job that runs already. See Communicator::grow().
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "collectives/bootstrap/membership.hpp"
#include "tutti/bootstrap.hpp"
#include "tutti/clock.hpp"
#include "tutti/store.hpp"

namespace tutti::launchers {

/// Plain data, which rank 0 sends to the other ranks.
struct Calling {
  std::uint64_t epoch = 0;
  std::int32_t newcomers = 0;  ///< they have the ranks after the present ones; 0: nobody comes, and there is no epoch
  std::int32_t one_host = 0;   ///< 1: the present ranks and the newcomers are all on one host
};

/// The ranks that call.
struct Callers {
  std::string job;   ///< the job's name
  int size = 1;      ///< how many they are
  std::string host;  ///< host_identity() of their host; empty: they are on several hosts
};

/// Returns the part of a job's store in which processes wait. `job`: the setting, as it was when the job started.
std::shared_ptr<Store> make_commons(std::shared_ptr<Store> store, const std::string& job);

/// Calls at most `most` of the processes that wait, and blocks until they have answered. Waits until `until` for so
/// many to come. Made by rank 0 of the present ranks. Throws Error.
Calling call_in(const std::shared_ptr<Store>& commons, const Callers& callers, int most, Deadline until);

/// How many processes wait.
int count_waiting(Store& commons);

/// A view of the commons for one epoch. Keeps the end of this process apparent to the other ranks of the epoch.
std::shared_ptr<Store> enter_epoch(const std::shared_ptr<Store>& commons, std::uint64_t epoch, int rank);

/// Tells the newcomers of an epoch whether the present ranks go on with them. Made by one rank. Throws Error.
void tell_verdict(Store& commons, std::uint64_t epoch, bool admitted);

/// For a newcomer: blocks until it is called, and returns its bootstrap. Throws Error{peer_lost} if the store is gone,
/// as it is when the job has ended.
Bootstrap wait_to_be_called(const Settings& settings, const Environment& environment);

/// For a newcomer that is connected: true if the other ranks go on with it.
bool is_admitted(const Bootstrap& newcomer);

}  // namespace tutti::launchers
