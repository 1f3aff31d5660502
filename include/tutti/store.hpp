// Store: the key-value store through which ranks find one another.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/clock.hpp"

namespace tutti {

/// A key to wait for.
struct Awaited {
  std::string key;
  std::string unless = {};  ///< a key that is set if `key` never will be, such as departure_key(); empty: none
};

/// The key that is set once rank `rank` of the job has ended, if the store or the launcher can detect that. It belongs
/// to the whole job: views by make_prefix_store() do not add their prefix to it.
std::string departure_key(int rank);

/// The value of departure_key(rank). `how` is a clause that names the rank: "rank 2 (pid 17) exited with code 0".
std::string departure_text(int rank, std::string_view how);

/// A small key-value store that all ranks of a job share. Used while communicators are made and to report failures,
/// never on the data path. Keys and values are arbitrary bytes; values have up to 1 MiB.
///
/// Threads: any; calls of one Store are serialised.
/// Errors: every call throws tutti::Error: timeout, which names the key; peer_lost if the store is gone, or if a rank
/// ended without setting a key, which names that rank. The implementations are in collectives/bootstrap.
class Store {
 public:
  virtual ~Store() = default;

  /// Sets the key; the last writer wins.
  virtual void set(std::string_view key, std::string_view value) = 0;

  /// Returns the key's value; blocks until it is set. Throws Error{timeout} after `until`.
  virtual std::string wait(std::string_view key, Deadline until) = 0;

  /// As wait(), but throws Error{peer_lost} as soon as `unless` is set and `key` is not.
  virtual std::string wait_unless(std::string_view key, std::string_view /*unless*/, Deadline until) {
    return wait(key, until);
  }

  /// Sets `key`, then waits for all of `keys` and returns their values in that order. If all ranks call it, it is an
  /// allgather with as few messages as the store allows.
  virtual std::vector<std::string> set_and_wait(std::string_view key, std::string_view value,
                                                std::span<const Awaited> keys, Deadline until) {
    set(key, value);
    std::vector<std::string> values;
    for (const Awaited& one : keys) values.push_back(wait_unless(one.key, one.unless, until));
    return values;
  }

  /// Copies the key's value to `value` and returns true. Returns false if the key is not set. Does not block for it.
  virtual bool find(std::string_view key, std::string& value) = 0;

  /// Atomically adds to a decimal counter that starts at 0; returns the new value.
  virtual std::int64_t add(std::string_view key, std::int64_t amount) = 0;

  /// Atomically sets the key if it is not set; returns the key's value afterwards. The first writer wins.
  virtual std::string set_once(std::string_view key, std::string_view value) = 0;

  /// Limits every later call except wait() to about `patience`; a call that takes longer throws.
  virtual void hurry(Seconds /*patience*/) {}

  /// Sets the key when this object is destroyed or its process ends, if the store can detect that.
  virtual void set_at_end(std::string_view /*key*/, std::string_view /*value*/) {}

  /// Removes the key, if it exists.
  virtual void erase(std::string_view key) = 0;

  /// True if one process answers all requests. It is then faster if ranks forward common values to one another.
  bool is_one_server() const noexcept { return is_one_server_; }

 protected:
  Store() noexcept = default;
  explicit Store(bool is_one_server) noexcept : is_one_server_(is_one_server) {}

 private:
  const bool is_one_server_ = true;
};

/// A map in this process, for ranks that are threads. Any thread.
std::shared_ptr<Store> make_local_store();

/// A folder visible to all ranks, created if missing. Values appear by atomic rename; counters use flock.
std::shared_ptr<Store> make_file_store(const std::string& folder);

/// A client of a TcpStoreServer. Retries until `until`. `secret` must be the server's and may be empty.
std::shared_ptr<Store> connect_tcp_store(const std::string& host, int port, const std::string& secret, Deadline until);

/// A view of `inner` that puts `prefix` + "/" in front of every key. Shares ownership of `inner`.
std::shared_ptr<Store> make_prefix_store(std::shared_ptr<Store> inner, std::string prefix);

/// As make_prefix_store(), for one job. This view, and views of it, put `prefix` in front of departure_key() too.
std::shared_ptr<Store> make_job_store(std::shared_ptr<Store> inner, std::string prefix);

/// Opens the store "tcp://HOST:PORT", "tcp://[::1]:PORT" or "file:///DIR". Throws Error{invalid} for any other
/// address.
std::shared_ptr<Store> open_store(const std::string& url, const std::string& secret, Deadline until);

/// Serves one job's keys over TCP (IPv4 and IPv6) on its own thread until destroyed. A client without the secret is
/// refused and logged; invalid data closes only its connection.
class TcpStoreServer {
 public:
  /// Port 0 picks a free port. An empty `address` means all interfaces. `clients`: expected number of clients. At most
  /// clients + 64 connections may be without proof of the secret, each for 10 s. Throws Error{resource}.
  TcpStoreServer(const std::string& address, int port, std::string secret, std::size_t clients = 256);
  ~TcpStoreServer();
  int port() const noexcept;
  /// Stops accepting clients and blocks until no client is connected, or until `until`. Called so that the server does
  /// not end before its clients.
  void drain(Deadline until);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tutti
