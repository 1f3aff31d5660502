// A store that one rank serves, usually rank 0, and the card by which the other ranks find it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/store.hpp"

namespace tutti::launchers {

struct Endpoint {
  std::string host;
  int port = 0;
};

std::string shown(const std::vector<Endpoint>& endpoints);

/// A server and its client. The server ends when `store` is destroyed, which first waits for the other clients to
/// disconnect, at most 5 seconds (0.5 during an exception). An empty `address` means all interfaces. Throws
/// Error{resource}.
struct ServedStore {
  std::shared_ptr<Store> store;
  int port = 0;
};
ServedStore serve_store(const std::string& address, int port, const std::string& secret);

/// The addresses of this host that other hosts may reach, at most 12; with `one_host`, the loopback address only.
std::vector<std::string> own_addresses(bool one_host);

/// Tries the endpoints in turn, again and again, until one is this job's store; skips other servers. Sets `place` to
/// the store's URL. Blocks. Throws Error{timeout} at `until`, and Error{resource} if no network leads to any endpoint.
std::shared_ptr<Store> connect_any(const std::vector<Endpoint>& endpoints, const std::string& secret, Deadline until,
                                   std::string& place);

/// The addresses of a served store, and its secret, which is empty if the other ranks know it. As text it has no blanks
/// and fewer than `longest_card` bytes.
struct StoreCard {
  std::string secret;
  std::vector<Endpoint> endpoints;
};
inline constexpr std::size_t longest_card = 1000;
std::string to_text(const StoreCard& card);
StoreCard parse_store_card(const std::string& text);

/// A store on any free port, and its card. An empty `secret` is replaced by a random one, which the card contains.
struct CardedStore {
  ServedStore served;
  StoreCard card;
};
CardedStore serve_with_card(bool one_host, const std::string& secret);

/// A random text to use as a secret.
std::string random_secret();

/// Returns on every rank the text that make() returns on rank 0, which sets it under `key`. Blocks. Throws
/// Error{peer_lost} if rank 0 has ended before, and Error{timeout}.
std::string made_by_rank_0(Store& store, int rank, std::string_view key, const std::function<std::string()>& make,
                           Deadline until);

}  // namespace tutti::launchers
