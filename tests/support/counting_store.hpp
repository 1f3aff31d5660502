// CountingStore: a store that counts requests, and the bytes of the values that it takes and returns.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tutti/store.hpp"

namespace tutti::testing {

/// Every key that is asked for or set counts as a request.
class CountingStore : public Store {
 public:
  CountingStore(std::shared_ptr<Store> inner, bool is_one_server) : Store(is_one_server), inner_(std::move(inner)) {}

  void set(std::string_view key, std::string_view value) override {
    count(value.size());
    inner_->set(key, value);
  }
  std::string wait(std::string_view key, Deadline until) override { return counted(inner_->wait(key, until)); }
  std::string wait_unless(std::string_view key, std::string_view unless, Deadline until) override {
    return counted(inner_->wait_unless(key, unless, until));
  }
  std::vector<std::string> set_and_wait(std::string_view key, std::string_view value, std::span<const Awaited> keys,
                                        Deadline until) override {
    count(value.size());
    std::vector<std::string> values = inner_->set_and_wait(key, value, keys, until);
    for (const std::string& one : values) count(one.size());
    return values;
  }
  bool find(std::string_view key, std::string& value) override {
    count(0);
    return inner_->find(key, value);
  }
  std::int64_t add(std::string_view key, std::int64_t amount) override {
    count(0);
    return inner_->add(key, amount);
  }
  std::string set_once(std::string_view key, std::string_view value) override {
    return counted(inner_->set_once(key, value));
  }
  void set_at_end(std::string_view key, std::string_view value) override {
    count(value.size());
    inner_->set_at_end(key, value);
  }
  void erase(std::string_view key) override {
    count(0);
    inner_->erase(key);
  }

  std::atomic<std::size_t> requests = 0, bytes = 0;

 protected:
  Store& inner() const noexcept { return *inner_; }
  void count(std::size_t moved) {
    ++requests;
    bytes += moved;
  }

 private:
  std::string counted(std::string value) {
    count(value.size());
    return value;
  }
  const std::shared_ptr<Store> inner_;
};

}  // namespace tutti::testing
