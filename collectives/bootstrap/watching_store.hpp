// WatchingStore: base class of stores that wait for several keys one after the other.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/store.hpp"

namespace tutti {

/// A store without a server: each rank accesses the keys itself. A wait for several keys takes them in their order, and
/// meanwhile checks whether one of the later keys will not be set any more.
class WatchingStore : public Store {
 public:
  WatchingStore() noexcept : Store(false) {}

  std::string wait(std::string_view key, Deadline until) final { return wait_unless(key, {}, until); }

  std::string wait_unless(std::string_view key, std::string_view unless, Deadline until) final {
    const Awaited one{std::string(key), std::string(unless)};
    return wait_for_first({&one, 1}, Clock::now(), until);
  }

  std::vector<std::string> set_and_wait(std::string_view key, std::string_view value, std::span<const Awaited> keys,
                                        Deadline until) final {
    const Deadline started = Clock::now();
    set(key, value);
    std::vector<std::string> values;
    while (values.size() < keys.size()) values.push_back(wait_for_first(keys.subspan(values.size()), started, until));
    return values;
  }

 private:
  /// Returns the value of the first of `keys` once it is set. Throws as soon as one of them will not be set any more,
  /// and after `until`; the wait began at `started`.
  virtual std::string wait_for_first(std::span<const Awaited> keys, Deadline started, Deadline until) = 0;
};

}  // namespace tutti
