// Bootstrapping ranks that know one another already, through a library that the program uses.
#pragma once

#include <functional>
#include <string>

#include "collectives/bootstrap/bootstrap.hpp"

namespace tutti {

/// What the library can do for its ranks while they meet.
struct CommonLibrary {
  std::string name;
  int rank = 0;
  int size = 1;
  std::int64_t native = -1;  ///< for the provider of that library, see Rendezvous
  /// Rank 0's text to all; all have as many bytes.
  std::function<void(std::string& text)> broadcast;
  /// Everyone's text, one after the other, in `all`; all have as many bytes.
  std::function<void(const std::string& mine, std::string& all)> allgather;
};

/// Collective. Rank 0 serves a store. Throws Error.
Bootstrap bootstrap_over(const CommonLibrary& library, const Settings& settings);

}  // namespace tutti
