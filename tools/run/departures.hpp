// Departures: tells ranks that wait in the store for another rank that this rank has ended.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tutti/clock.hpp"
#include "tutti/store.hpp"

namespace tutti::tools {

class Departures {
 public:
  /// `store`, `secret` and `job` are settings of the job with `ranks` ranks. Connects when there is something to tell.
  Departures(std::string store, std::string secret, std::string job, int ranks)
      : url_(std::move(store)), secret_(std::move(secret)), job_(std::move(job)), ranks_(ranks) {}

  /// Records in the store that `rank` has ended; `how` is a clause that names the rank. Ranks that wait for this rank
  /// then stop waiting. Blocks for a moment.
  void tell(int rank, const std::string& how);
  /// The time for try_again(), if the store has not answered; `never` if nothing is left to tell or the store has gone.
  Deadline next_try() const noexcept { return next_try_; }
  void try_again() noexcept;

 private:
  void tell_the_store(int rank, const std::string& how);

  const std::string url_, secret_, job_;
  const int ranks_;
  std::shared_ptr<Store> store_;
  std::vector<std::pair<int, std::string>> untold_;
  Deadline next_try_ = never;
  int tries_ = 0;  // failed attempts, one after the other
};

}  // namespace tutti::tools
