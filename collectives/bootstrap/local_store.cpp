// The store for ranks that are threads of one process: a map with a mutex. Setting a key wakes the threads that wait
// for it.
#include <condition_variable>
#include <map>
#include <mutex>
#include <vector>

#include "collectives/bootstrap/store_rules.hpp"
#include "collectives/bootstrap/watching_store.hpp"
#include "tutti/store.hpp"

namespace tutti {
namespace {

constexpr std::string_view place = "this process's store";

class LocalStore final : public WatchingStore {
 public:
  void set(std::string_view key, std::string_view value) override {
    store_rules::check(key, value);
    const std::lock_guard lock(mutex_);
    values_.insert_or_assign(std::string(key), std::string(value));
    wake(key);
  }

  bool find(std::string_view key, std::string& value) override {
    const std::lock_guard lock(mutex_);
    const auto found = values_.find(key);
    if (found == values_.end()) return false;
    value = found->second;
    return true;
  }

  std::int64_t add(std::string_view key, std::int64_t amount) override {
    store_rules::check(key);
    const std::lock_guard lock(mutex_);
    const auto found = values_.find(key);
    const std::string_view text = found == values_.end() ? std::string_view() : found->second;
    const std::int64_t sum = store_rules::added(text, amount, key, place);
    values_.insert_or_assign(std::string(key), std::to_string(sum));
    wake(key);
    return sum;
  }

  std::string set_once(std::string_view key, std::string_view value) override {
    store_rules::check(key, value);
    const std::lock_guard lock(mutex_);
    const auto [entry, fresh] = values_.try_emplace(std::string(key), value);
    if (fresh) wake(key);
    return entry->second;
  }

  void erase(std::string_view key) override {
    const std::lock_guard lock(mutex_);
    if (const auto found = values_.find(key); found != values_.end()) values_.erase(found);
  }

 private:
  /// A thread that waits until its first key is set, or until a key Awaited::unless is set.
  class Waiter {
   public:
    Waiter(LocalStore& store, std::span<const Awaited> keys) : store_(store) {
      enter(keys.front().key);
      for (const Awaited& one : keys)
        if (!one.unless.empty()) enter(one.unless);
    }
    ~Waiter() {
      for (const auto& entry : entries_) store_.waiters_.erase(entry);
    }
    Waiter(const Waiter&) = delete;
    Waiter& operator=(const Waiter&) = delete;
    std::condition_variable changed;

   private:
    void enter(const std::string& key) { entries_.push_back(store_.waiters_.emplace(key, this)); }
    LocalStore& store_;
    std::vector<std::multimap<std::string, Waiter*, std::less<>>::iterator> entries_;
  };

  void wake(std::string_view key) {
    const auto [first, last] = waiters_.equal_range(key);
    for (auto at = first; at != last; ++at) at->second->changed.notify_one();
  }

  void throw_if_in_vain(std::span<const Awaited> keys) const {
    for (const auto& [one, unless] : keys)
      if (const auto instead = values_.find(unless); !unless.empty() && instead != values_.end())
        if (!values_.contains(one)) throw store_rules::departed(instead->second);
  }

  std::string wait_for_first(std::span<const Awaited> keys, Deadline started, Deadline until) override {
    const std::string& key = keys.front().key;
    std::unique_lock lock(mutex_);
    auto found = values_.find(key);
    if (found != values_.end()) return found->second;
    Waiter self(*this, keys);
    while (found == values_.end()) {
      throw_if_in_vain(keys);
      const bool late = self.changed.wait_until(lock, until) == std::cv_status::timeout;
      found = values_.find(key);
      if (late && found == values_.end()) throw store_rules::timed_out(key, place, started);
    }
    return found->second;
  }

  std::mutex mutex_;
  std::map<std::string, std::string, std::less<>> values_;
  std::multimap<std::string, Waiter*, std::less<>> waiters_;  // by key; a waiter may have several
};

}  // namespace

std::shared_ptr<Store> make_local_store() { return std::make_shared<LocalStore>(); }

}  // namespace tutti
