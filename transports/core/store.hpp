// Store: the key-value store through which ranks find one another.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "transports/core/clock.hpp"

namespace tutti {

/// A small key-value store that all ranks of a job share. Used while communicators are made and to report failures,
/// never on the data path. Keys and values are arbitrary bytes; values have up to 1 MiB.
///
/// Threads: any; calls of one Store are serialised.
/// Errors: every call throws tutti::Error (timeout with the key's name, peer_lost if the store is gone). The
/// implementations are in collectives/bootstrap.
class Store {
 public:
  virtual ~Store() = default;

  /// Sets the key; the last writer wins.
  virtual void set(std::string_view key, std::string_view value) = 0;

  /// Returns the key's value; blocks until it is set. Throws Error{timeout} after `until`.
  virtual std::string wait(std::string_view key, Deadline until) = 0;

  /// Sets `key`, then waits for all of `keys` and returns their values in that order. When all ranks call it, this is
  /// an allgather with the fewest messages that the store needs.
  virtual std::vector<std::string> set_and_wait(std::string_view key, std::string_view value,
                                                std::span<const std::string> keys, Deadline until) {
    set(key, value);
    std::vector<std::string> values;
    for (const std::string& one : keys) values.push_back(wait(one, until));
    return values;
  }

  /// Stores the value and returns true, or returns false at once if the key is not set.
  virtual bool find(std::string_view key, std::string& value) = 0;

  /// Atomically adds to a decimal counter that starts at 0; returns the new value.
  virtual std::int64_t add(std::string_view key, std::int64_t amount) = 0;

  /// Atomically sets the key if it is unset; returns the value that it then has, so that the first writer wins.
  virtual std::string set_once(std::string_view key, std::string_view value) = 0;

  /// Limits every later call except wait() to about `patience`; a call that takes longer throws.
  virtual void hurry(Seconds /*patience*/) {}

  /// Removes the key, if it exists.
  virtual void erase(std::string_view key) = 0;
};

}  // namespace tutti
