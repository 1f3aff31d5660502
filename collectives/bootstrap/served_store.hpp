// A store served by rank 0, and the card that tells the other ranks how to find it.
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

/// A server and its client. The store exists as long as this handle, which waits a few seconds for the other clients
/// when it is destroyed. An empty `address` means all interfaces. Throws Error{resource}.
struct ServedStore {
  std::shared_ptr<Store> store;
  int port = 0;
};
ServedStore serve_store(const std::string& address, int port, const std::string& secret);

/// This host's addresses that other hosts may reach; with `one_host`, the loopback address only.
std::vector<std::string> own_addresses(bool one_host);

/// Tries the endpoints in turn until one is this job's store. Other servers are skipped.
std::shared_ptr<Store> connect_any(const std::vector<Endpoint>& endpoints, const std::string& secret, Deadline until,
                                   std::string& place);

/// The address of rank 0's store and its secret: a text without blanks, shorter than `longest_card`.
struct StoreCard {
  std::string secret;
  std::vector<Endpoint> endpoints;
};
inline constexpr std::size_t longest_card = 1000;
std::string to_text(const StoreCard& card);
StoreCard parse_store_card(const std::string& text);

/// A store on any free port, and its card. An empty `secret` is replaced by a random one.
struct CardedStore {
  ServedStore served;
  StoreCard card;
};
CardedStore serve_with_card(bool one_host, const std::string& secret);

/// A random text to use as a secret.
std::string random_secret();

/// On every rank, what rank 0 makes and sets under `key`. Throws Error{peer_lost} if rank 0 has ended before.
std::string made_by_rank_0(Store& store, int rank, std::string_view key, const std::function<std::string()>& make,
                           Deadline until);

}  // namespace tutti::launchers
