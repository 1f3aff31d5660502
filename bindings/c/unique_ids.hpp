// Unique ids: the address and secret of a store that this process serves, as a text of 256 bytes.
#pragma once

#include <memory>
#include <string>

#include "collectives/bootstrap/served_store.hpp"
#include "tutti/store.hpp"

namespace tutti::c {

inline constexpr std::size_t unique_id_bytes = 256;

/// Starts a store and writes its address to `id`. Releases stores whose id has not been used within 5 minutes.
void make_unique_id(char* id);

/// What an id says. Throws Error if it is none.
launchers::StoreCard card_in(const char* id);

struct OpenedId {
  std::shared_ptr<Store> store;
  std::string secret;
};
/// The store of `id`: the local one, for the first caller in the process that serves it; else a client of it. Throws
/// Error.
OpenedId open_unique_id(const char* id, Deadline until);

}  // namespace tutti::c
