// Bootstrap of ranks that are connected already by another library, such as MPI.
#pragma once

#include <functional>
#include <string>

#include "collectives/bootstrap/bootstrap.hpp"

namespace tutti {

/// Collectives of that library, used during the bootstrap.
struct CommonLibrary {
  std::string name;
  int rank = 0;
  int size = 1;
  std::int64_t native = -1;  ///< for the library's provider, see Rendezvous
  /// Copies rank 0's text to all ranks. All texts have the same length.
  std::function<void(std::string& text)> broadcast;
  /// Concatenates all ranks' texts in `all`, by rank. All texts have the same length.
  std::function<void(const std::string& mine, std::string& all)> allgather;
};

/// Collective over the library's ranks. Rank 0 serves the store. Throws Error.
Bootstrap bootstrap_over(const CommonLibrary& library, const Settings& settings);

}  // namespace tutti
