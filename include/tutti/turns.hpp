// Turns: one after the other, the starts of a job whose ranks meet in a store. The store may outlive a job, so what an
// earlier start has left in it, complete or not, must not be taken for this one's.
#pragma once

#include <memory>
#include <string>

#include "tutti/bootstrap.hpp"
#include "tutti/store.hpp"

namespace tutti::launchers {

/// A rank's place in a job. Jobs that differ in name or size do not see one another.
struct Seat {
  int rank = 0;
  int size = 1;
  std::string job;       ///< the setting `job`
  std::string by;        ///< what says that this process is that rank: "torchrun: RANK=1, WORLD_SIZE=4"
  double patience = 60;  ///< seconds, for messages: the setting `connect_timeout`
};

/// A view of `store` for this start of the job, without the keys of other starts. Rank 0 takes a new number, and the
/// others join under it; blocks until all have. Each call joins one start, so all ranks make the same number of calls.
///
/// Throws Error{invalid} if another living process of this host has joined as this rank, Error{peer_lost} naming a rank
/// that ended before all had joined, and Error{timeout} naming one that has not joined by `until`.
std::shared_ptr<Store> join_turn(std::shared_ptr<Store> store, const Seat& seat, Deadline until);

/// Joins the other ranks in a store that may have served other jobs: sets the bootstrap's store by join_turn(), and its
/// settings `job` and `secret`, where they are empty, to texts that rank 0 makes. Blocks for at most the setting
/// `connect_timeout`. Throws as join_turn() does.
void join_others(Bootstrap& bootstrap, std::shared_ptr<Store> store);

/// Tells those who wait for the seat's rank, now or later, that it has ended and never comes. For a launcher. `how` is
/// as in departure_text().
void tell_departure(Store& store, const Seat& seat, const std::string& how);

}  // namespace tutti::launchers
