// The stores: a server and client over TCP, a folder, a map in this process, and a prefix.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "transports/core/store.hpp"

namespace tutti {

/// A map in this process, for ranks that are threads.
std::shared_ptr<Store> make_local_store();

/// A folder that all ranks see; made if missing. Values appear by atomic rename, counters under flock.
std::shared_ptr<Store> make_file_store(const std::string& folder);

/// A client of a TcpStoreServer. Retries until `until`. The secret (may be empty) must be the server's.
std::shared_ptr<Store> connect_tcp_store(const std::string& host, int port, const std::string& secret, Deadline until);

/// Every key with `prefix` + "/" in front; shares the inner store.
std::shared_ptr<Store> make_prefix_store(std::shared_ptr<Store> inner, std::string prefix);

/// "tcp://HOST:PORT", "tcp://[::1]:PORT", "file:///DIR" -> a store. Throws Error{invalid} for anything else.
std::shared_ptr<Store> open_store(const std::string& url, const std::string& secret, Deadline until);

/// Serves one job's keys over TCP (IPv4 and IPv6) from a thread of its own until destroyed. A client that does not
/// present the secret is refused and logged; garbage closes that connection only.
class TcpStoreServer {
 public:
  /// Port 0 picks a free one. `address` empty: all interfaces. Throws Error{resource}.
  TcpStoreServer(const std::string& address, int port, std::string secret);
  ~TcpStoreServer();
  int port() const noexcept;
  /// Accepts nobody any more and blocks until no client is connected, or `until`: so that who serves does
  /// not leave before the others.
  void drain(Deadline until);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tutti
