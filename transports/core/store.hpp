// Store: the key-value meeting point through which ranks find one another.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "transports/core/clock.hpp"

namespace tutti {

/// A small key-value map that all ranks of a job see. Used while communicators are made and for
/// news of a failure, never on the data path. Keys and values are any bytes; values up to 1 MiB.
///
/// Threads: any thread may call; calls of one Store are serialised.
/// Errors: every call throws tutti::Error (timeout with the key's name, peer_lost when the
/// store is gone). The implementations live in collectives/bootstrap.
class Store {
 public:
  virtual ~Store() = default;

  /// Sets the key; the last writer wins.
  virtual void set(std::string_view key, std::string_view value) = 0;

  /// The key's value; waits until somebody sets it.
  virtual std::string wait(std::string_view key, Deadline until) = 0;

  /// Sets `key`, then waits for each of `keys`: their values, in the order of `keys`. Ranks that all do so tell one
  /// another something in as few messages as the store can.
  virtual std::vector<std::string> set_and_wait(std::string_view key, std::string_view value,
                                                std::span<const std::string> keys, Deadline until) {
    set(key, value);
    std::vector<std::string> values;
    for (const std::string& one : keys) values.push_back(wait(one, until));
    return values;
  }

  /// True and the value, or false at once.
  virtual bool find(std::string_view key, std::string& value) = 0;

  /// Adds to a decimal counter that starts at 0 and returns the new value; atomic.
  virtual std::int64_t add(std::string_view key, std::int64_t amount) = 0;

  /// Sets the key where it is unset; returns the value it then has, so the first writer wins. Atomic.
  virtual std::string set_once(std::string_view key, std::string_view value) = 0;

  /// From now on no call but wait() takes longer than about `patience`; it throws instead.
  virtual void hurry(Seconds /*patience*/) {}

  /// Forgets the key, if it is there.
  virtual void erase(std::string_view key) = 0;
};

}  // namespace tutti
