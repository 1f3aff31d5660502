#include "collectives/bootstrap/served_store.hpp"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <charconv>
#include <exception>
#include <thread>

#include "collectives/bootstrap/socket.hpp"
#include "collectives/bootstrap/store_url.hpp"
#include "collectives/bootstrap/store_wire.hpp"
#include "tutti/status.hpp"

namespace tutti::launchers {
namespace {

constexpr Seconds farewell(5);          // how long the server waits for its clients to disconnect
constexpr Seconds short_farewell(0.5);  // the same when it ends because of an error
constexpr Seconds one_try(1);

/// A server and its own client. The destructor waits for the other clients, because they would report an early end of
/// the server as a failure.
class Served final : public Store {
 public:
  Served(const std::string& address, int port, const std::string& secret) : server(address, port, secret) {
    const std::string host = address.empty() ? sockets::loopback_host() : address;
    client_ = connect_tcp_store(host, server.port(), secret, deadline_in(Seconds(10)));
  }
  ~Served() override {
    client_.reset();
    server.drain(deadline_in(std::uncaught_exceptions() == 0 ? farewell : short_farewell));
  }
  Served(const Served&) = delete;
  Served& operator=(const Served&) = delete;

  void set(std::string_view key, std::string_view value) override { client_->set(key, value); }
  std::string wait(std::string_view key, Deadline until) override { return client_->wait(key, until); }
  std::string wait_unless(std::string_view key, std::string_view unless, Deadline until) override {
    return client_->wait_unless(key, unless, until);
  }
  /// If one of the keys will not be set any more, first waits up to 5 s until the other ranks have set theirs, so that
  /// they find the server and get the same error.
  std::vector<std::string> set_and_wait(std::string_view key, std::string_view value, std::span<const Awaited> keys,
                                        Deadline until) override {
    try {
      return client_->set_and_wait(key, value, keys, until);
    } catch (const Error& error) {
      if (error.code() == Code::peer_lost && error.culprit() >= 0)
        wait_for_all(keys, std::min(until, deadline_in(farewell)));
      throw;
    }
  }
  bool find(std::string_view key, std::string& value) override { return client_->find(key, value); }
  std::int64_t add(std::string_view key, std::int64_t amount) override { return client_->add(key, amount); }
  std::string set_once(std::string_view key, std::string_view value) override { return client_->set_once(key, value); }
  void hurry(Seconds patience) override { client_->hurry(patience); }
  void set_at_end(std::string_view key, std::string_view value) override { client_->set_at_end(key, value); }
  void erase(std::string_view key) override { client_->erase(key); }

  TcpStoreServer server;

 private:
  /// Waits until each key is set or will not be set any more.
  void wait_for_all(std::span<const Awaited> keys, Deadline until) {
    for (const Awaited& one : keys) {
      try {
        client_->wait_unless(one.key, one.unless, until);
      } catch (const Error& error) {
        if (error.code() != Code::peer_lost) return;
      }
    }
  }

  std::shared_ptr<Store> client_;
};

}  // namespace

std::string shown(const std::vector<Endpoint>& endpoints) {
  std::string text;
  for (const Endpoint& e : endpoints) text += (text.empty() ? "tcp://" : ", ") + sockets::shown(e.host, e.port);
  return text;
}

ServedStore serve_store(const std::string& address, int port, const std::string& secret) {
  const auto served = std::make_shared<Served>(address, port, secret);
  return {served, served->server.port()};
}

std::shared_ptr<Store> connect_any(const std::vector<Endpoint>& endpoints, const std::string& secret, Deadline until,
                                   std::string& place) {
  std::string why;
  for (;;) {
    std::size_t unreachable = 0;
    for (const Endpoint& e : endpoints) {
      try {
        auto store = connect_tcp_store_once(e.host, e.port, secret, std::min(until, deadline_in(one_try)));
        place = "tcp://" + sockets::shown(e.host, e.port);
        return store;
      } catch (const Error& error) {
        why = error.what();
        if (error.code() == Code::resource && ++unreachable == endpoints.size()) throw;
      }
    }
    if (Clock::now() >= until)
      throw Error(Code::timeout,
                  "rank 0 has not joined the others: its store was found at none of " + shown(endpoints) +
                      "; see whether it started and what it printed. Last: " + why,
                  0);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

std::vector<std::string> own_addresses(bool one_host) {
  std::vector<std::string> found;
  ifaddrs* list = nullptr;
  if (one_host || getifaddrs(&list) != 0) return {sockets::loopback_host()};
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, freeifaddrs);
  constexpr std::size_t most = 12;  // keeps the card short
  for (const ifaddrs* entry = list; entry && found.size() < most; entry = entry->ifa_next) {
    if (!entry->ifa_addr || !(entry->ifa_flags & IFF_UP) || (entry->ifa_flags & IFF_LOOPBACK)) continue;
    const int family = entry->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    if (family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6*>(entry->ifa_addr)->sin6_addr))
      continue;
    found.push_back(sockets::host_of(*entry->ifa_addr));
  }
  if (found.empty()) found.push_back(sockets::loopback_host());
  return found;
}

// The text of a card is "SECRET,PORT,ADDRESS,ADDRESS".
std::string to_text(const StoreCard& card) {
  std::string text = card.secret + "," + std::to_string(card.endpoints.front().port);
  for (const Endpoint& e : card.endpoints) text += "," + e.host;
  return text;
}

StoreCard parse_store_card(const std::string& text) {
  StoreCard card;
  std::vector<std::string> parts;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    parts.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  int port = 0;
  if (parts.size() >= 3) std::from_chars(parts[1].data(), parts[1].data() + parts[1].size(), port);
  // The message does not quote the card, because the card contains a secret.
  if (port < 1 || port > 65535)
    throw Error(Code::protocol, "the address of a store cannot be read: expected SECRET,PORT,ADDRESS,...");
  card.secret = parts[0];
  for (std::size_t i = 2; i < parts.size(); ++i) card.endpoints.push_back({parts[i], port});
  return card;
}

CardedStore serve_with_card(bool one_host, const std::string& secret) {
  CardedStore result;
  const std::string key = secret.empty() ? random_secret() : secret;
  result.served = serve_store(one_host ? sockets::loopback_host() : "", 0, key);
  if (secret.empty()) result.card.secret = key;  // otherwise the other ranks know it
  for (const std::string& address : own_addresses(one_host))
    result.card.endpoints.push_back({address, result.served.port});
  return result;
}

std::string random_secret() {
  std::string text;
  for (const std::byte b : store_wire::random_nonce()) {
    text += "0123456789abcdef"[std::to_integer<unsigned>(b) >> 4];
    text += "0123456789abcdef"[std::to_integer<unsigned>(b) & 15];
  }
  return text;
}

std::string made_by_rank_0(Store& store, int rank, std::string_view key, const std::function<std::string()>& make,
                           Deadline until) {
  return rank == 0 ? store.set_once(key, make()) : store.wait_unless(key, departure_key(0), until);
}

}  // namespace tutti::launchers
