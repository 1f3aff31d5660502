// Bootstraps of processes of a test that are ranks of one host and use a file store.
#pragma once

#include <string>

#include "tutti/bootstrap.hpp"
#include "tutti/store.hpp"

namespace tutti::testing {

/// Returns the bootstrap of rank `rank` of `size`; all ranks pass the same folder.
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

/// The same for ranks that use `transport`. "routed": two hosts, of which the first has ranks 0 and 1; shm inside
/// hosts, tcp between them.
inline Bootstrap bootstrap_in(const std::string& folder, int rank, int size, const std::string& transport) {
  Bootstrap bootstrap = bootstrap_in(folder, rank, size);
  bootstrap.settings.transport = transport == "routed" ? "shm,tcp" : transport;
  if (transport == "routed") bootstrap.settings.host_id = rank < 2 ? "one" : "other";
  return bootstrap;
}

}  // namespace tutti::testing
