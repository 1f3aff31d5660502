// Unique ids: the address and secret of a store that this process serves, as a text of 256 bytes.
#pragma once

#include <memory>
#include <string>

#include "collectives/bootstrap/served_store.hpp"
#include "tutti/store.hpp"

namespace tutti::c {

inline constexpr std::size_t unique_id_bytes = 256;

/// Starts a store and writes its id to `id`. Stops earlier stores whose id this process has not used within 5 minutes.
void make_unique_id(char* id);

/// The address and secret in an id. Throws Error if `id` is no id.
launchers::StoreCard card_in(const char* id);

struct OpenedId {
  std::shared_ptr<Store> store;
  std::string secret;
};
/// The store of `id`. The first call in the process that serves the store returns the store itself; all other calls
/// return a client of it. Throws Error.
OpenedId open_unique_id(const char* id, Deadline until);

}  // namespace tutti::c
