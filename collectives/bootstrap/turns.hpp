// A store may serve several meetings of a job's ranks, when a script starts programs one after another or a program
// bootstraps twice. Every rank counts its own, and the counts agree.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "tutti/store.hpp"

namespace tutti::launchers {

/// The counter of the meetings that rank `rank` of `size` has come to. Ranks that a script has numbered anew, for a
/// part of the job, have another size, so they are none of the launcher's.
inline std::string turn_key(int rank, int size) {
  return "tutti/turn/" + std::to_string(size) + "/" + std::to_string(rank);
}

/// The store of one meeting, counted from 1.
inline std::shared_ptr<Store> turn_store(std::shared_ptr<Store> store, int size, std::int64_t turn) {
  return make_job_store(std::move(store), "tutti/" + std::to_string(size) + "/" + std::to_string(turn));
}

}  // namespace tutti::launchers
