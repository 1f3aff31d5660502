// The store for ranks that are threads of one process: a map with a mutex and a condition variable.
#include <condition_variable>
#include <map>
#include <mutex>

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
    changed_.notify_all();
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
    changed_.notify_all();
    return sum;
  }

  std::string set_once(std::string_view key, std::string_view value) override {
    store_rules::check(key, value);
    const std::lock_guard lock(mutex_);
    const auto [entry, fresh] = values_.try_emplace(std::string(key), value);
    if (fresh) changed_.notify_all();
    return entry->second;
  }

  void erase(std::string_view key) override {
    const std::lock_guard lock(mutex_);
    if (const auto found = values_.find(key); found != values_.end()) values_.erase(found);
  }

 private:
  std::string wait_for_first(std::span<const Awaited> keys, Deadline started, Deadline until) override {
    const std::string& key = keys.front().key;
    std::unique_lock lock(mutex_);
    auto found = values_.find(key);
    while (found == values_.end()) {
      for (const auto& [one, unless] : keys)
        if (const auto instead = values_.find(unless); !unless.empty() && instead != values_.end())
          if (!values_.contains(one)) throw store_rules::departed(instead->second);
      const bool late = changed_.wait_until(lock, until) == std::cv_status::timeout;
      found = values_.find(key);
      if (late && found == values_.end()) throw store_rules::timed_out(key, place, started);
    }
    return found->second;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string, std::less<>> values_;
};

}  // namespace

std::shared_ptr<Store> make_local_store() { return std::make_shared<LocalStore>(); }

}  // namespace tutti
