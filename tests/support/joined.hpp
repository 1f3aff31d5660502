// Ranks of one host that meet by a file store, as processes of a test.
#pragma once

#include <string>

#include "tutti/bootstrap.hpp"
#include "tutti/store.hpp"

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

/// The same where they talk by `transport`; "routed": by shm within two hosts, whose first one has ranks 0 and 1, and
/// by tcp between them.
inline Bootstrap bootstrap_in(const std::string& folder, int rank, int size, const std::string& transport) {
  Bootstrap bootstrap = bootstrap_in(folder, rank, size);
  bootstrap.settings.transport = transport == "routed" ? "shm,tcp" : transport;
  if (transport == "routed") bootstrap.settings.host_id = rank < 2 ? "one" : "other";
  return bootstrap;
}

}  // namespace tutti::testing
