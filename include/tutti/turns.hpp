// Turns: successive starts of a job whose ranks meet in one store. The store may outlive a job. Keys that an earlier
// start left in the store, complete or not, must not be mistaken for keys of this start.
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
  std::string by;        ///< the source of rank and size, for errors: "torchrun: RANK=1, WORLD_SIZE=4"
  double patience = 60;  ///< seconds, for error texts only: the setting `connect_timeout`
};

/// Returns a view of `store` for this start of the job, without the keys of other starts. Rank 0 draws a new number,
/// and the other ranks join under that number. Blocks until all ranks have joined. Each call joins one start, so all
/// ranks must make the same number of calls.
///
/// Throws Error{invalid} if another living process of this host has joined as this rank, Error{peer_lost} with a rank
/// that ended before all had joined, and Error{timeout} with a rank that has not joined by `until`.
std::shared_ptr<Store> join_turn(std::shared_ptr<Store> store, const Seat& seat, Deadline until);

/// Joins the other ranks in a store that may have served other jobs. Sets the bootstrap's store to the result of
/// join_turn(). Sets its settings `job` and `secret`, if empty, to texts that rank 0 makes. Blocks for at most the
/// setting `connect_timeout`. Throws as join_turn() does.
void join_others(Bootstrap& bootstrap, std::shared_ptr<Store> store);

/// Called by a launcher: records that the seat's rank has ended and will not join. Ranks that wait for it, now or
/// later, then fail. `how` is as in departure_text().
void tell_departure(Store& store, const Seat& seat, const std::string& how);

}  // namespace tutti::launchers
