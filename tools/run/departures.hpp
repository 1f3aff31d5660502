// Departures: tells the ranks that wait for another one in the store that it has ended.
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
  /// `store`, `secret` and `job` are the settings of the `ranks` ranks. Connects when there is something to tell.
  Departures(std::string store, std::string secret, std::string job, int ranks)
      : url_(std::move(store)), secret_(std::move(secret)), job_(std::move(job)), ranks_(ranks) {}

  /// `how` is a clause that names the rank. Ranks that wait for nothing of it never learn of this. Blocks for a moment.
  void tell(int rank, const std::string& how);
  /// When to call try_again(), as the store did not answer in time; `never` if all are told or the store has gone.
  Deadline next_try() const noexcept { return next_try_; }
  void try_again() noexcept;

 private:
  void tell_the_store(int rank, const std::string& how);

  const std::string url_, secret_, job_;
  const int ranks_;
  std::shared_ptr<Store> store_;
  std::vector<std::pair<int, std::string>> untold_;
  Deadline next_try_ = never;
  int tries_ = 0;  // in vain, one after the other
};

}  // namespace tutti::tools
