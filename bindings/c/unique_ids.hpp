// Unique ids: the card of a store that this process serves, as a text of 256 bytes.
#pragma once

#include <memory>
#include <string>

#include "transports/core/store.hpp"

namespace tutti::c {

inline constexpr std::size_t unique_id_bytes = 256;

/// Serves a store, and writes its card to `id`. Stores that nobody has come to for 5 minutes are given up.
void make_unique_id(char* id);

struct OpenedId {
  std::shared_ptr<Store> store;
  std::string secret;
};
/// The store of `id`: this process's own where it is the first to ask, else a client of it. Throws Error.
OpenedId open_unique_id(const char* id, Deadline until);

}  // namespace tutti::c
