// A store that rank 0 serves, and the card by which the others find it; private to collectives/bootstrap.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "collectives/bootstrap/stores.hpp"

namespace tutti::launchers {

struct Endpoint {
  std::string host;
  int port = 0;
};

std::string shown(const std::vector<Endpoint>& endpoints);

/// A server and its client in one: the store stays as long as this handle, and at the end waits a few seconds for the
/// others to leave. `address` empty: all interfaces. Throws Error{resource}.
struct ServedStore {
  std::shared_ptr<Store> store;
  int port = 0;
};
ServedStore serve_store(const std::string& address, int port, const std::string& secret);

/// This host's addresses that others may reach, or the loopback alone.
std::vector<std::string> own_addresses(bool one_host);

/// Tries all in turn until one is this job's store; strangers at the other ones are passed over.
std::shared_ptr<Store> connect_any(const std::vector<Endpoint>& endpoints, const std::string& secret, Deadline until,
                                   std::string& place);

/// Where rank 0's store is and the secret that opens it: a text without blanks, shorter than `longest_card`.
struct StoreCard {
  std::string secret;
  std::vector<Endpoint> endpoints;
};
inline constexpr std::size_t longest_card = 1000;
std::string to_text(const StoreCard& card);
StoreCard parse_store_card(const std::string& text);

/// Any free port, and the card that says so. `secret` empty: a random one.
struct CardedStore {
  ServedStore served;
  StoreCard card;
};
CardedStore serve_with_card(bool one_host, const std::string& secret);

/// A random text to use as a secret.
std::string random_secret();

}  // namespace tutti::launchers
