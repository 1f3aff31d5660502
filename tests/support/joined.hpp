// Ranks of one host that meet by a file store, as processes of a test.
#pragma once

#include <string>

#include "collectives/bootstrap/bootstrap.hpp"
#include "collectives/bootstrap/stores.hpp"

namespace tutti::testing {

/// What rank `rank` of `size` needs to meet the others, who use the same folder.
inline Bootstrap bootstrap_in(const std::string& folder, int rank, int size) {
  Bootstrap bootstrap;
  bootstrap.rank = bootstrap.local_rank = rank;
  bootstrap.size = bootstrap.local_size = size;
  bootstrap.store = make_file_store(folder);
  bootstrap.settings.timeout = 50;
  bootstrap.settings.job = folder;
  bootstrap.settings.secret = "test";
  return bootstrap;
}

}  // namespace tutti::testing
