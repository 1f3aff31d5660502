// Departures: tells the ranks that wait for another one in the store that it has ended.
#pragma once

#include <memory>
#include <string>

#include "tutti/store.hpp"

namespace tutti::tools {

class Departures {
 public:
  /// `store` and `secret` are those of the `ranks` ranks. Connects when there is something to tell.
  Departures(std::string store, std::string secret, int ranks)
      : url_(std::move(store)), secret_(std::move(secret)), ranks_(ranks) {}

  /// `how` is a clause that names the rank. Ranks that wait for nothing of it never learn of this. Blocks for a moment;
  /// if the store cannot be reached, nothing is told then and later.
  void tell(int rank, const std::string& how) noexcept;

 private:
  const std::string url_, secret_;
  const int ranks_;
  std::shared_ptr<Store> store_;
  bool given_up_ = false;
};

}  // namespace tutti::tools
