// The implementations of Store: TCP server and client, a folder, a map in this process, and a prefix.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "transports/core/store.hpp"

namespace tutti {

/// A map in this process, for ranks that are threads. Any thread.
std::shared_ptr<Store> make_local_store();

/// A folder visible to all ranks, created if missing. Values appear by atomic rename; counters use flock.
std::shared_ptr<Store> make_file_store(const std::string& folder);

/// A client of a TcpStoreServer. Retries until `until`. `secret` must be the server's and may be empty.
std::shared_ptr<Store> connect_tcp_store(const std::string& host, int port, const std::string& secret, Deadline until);

/// A view that puts `prefix` + "/" in front of every key of `inner`, which it shares.
std::shared_ptr<Store> make_prefix_store(std::shared_ptr<Store> inner, std::string prefix);

/// Opens the store "tcp://HOST:PORT", "tcp://[::1]:PORT" or "file:///DIR". Throws Error{invalid} for any other
/// address.
std::shared_ptr<Store> open_store(const std::string& url, const std::string& secret, Deadline until);

/// Serves one job's keys over TCP (IPv4 and IPv6) on its own thread until destroyed. A client without the secret is
/// refused and logged; invalid data closes only its connection.
class TcpStoreServer {
 public:
  /// Port 0 picks a free port. An empty `address` means all interfaces. Throws Error{resource}.
  TcpStoreServer(const std::string& address, int port, std::string secret);
  ~TcpStoreServer();
  int port() const noexcept;
  /// Stops accepting clients and blocks until none is connected, or `until`. Keeps the server from leaving before its
  /// clients.
  void drain(Deadline until);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tutti
