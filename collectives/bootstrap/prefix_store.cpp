// A view of a store that adds a prefix to every key, so that parts of a job do not share keys.
#include "tutti/store.hpp"

namespace tutti {
namespace {

class PrefixStore final : public Store {
 public:
  PrefixStore(std::shared_ptr<Store> inner, std::string prefix)
      : inner_(std::move(inner)), prefix_(std::move(prefix) + "/") {}

  void set(std::string_view key, std::string_view value) override { inner_->set(full(key), value); }
  std::string wait(std::string_view key, Deadline until) override { return inner_->wait(full(key), until); }
  std::vector<std::string> set_and_wait(std::string_view key, std::string_view value, std::span<const std::string> keys,
                                        Deadline until) override {
    std::vector<std::string> fulls;
    for (const std::string& one : keys) fulls.push_back(full(one));
    return inner_->set_and_wait(full(key), value, fulls, until);
  }
  bool find(std::string_view key, std::string& value) override { return inner_->find(full(key), value); }
  std::int64_t add(std::string_view key, std::int64_t amount) override { return inner_->add(full(key), amount); }
  std::string set_once(std::string_view key, std::string_view value) override {
    return inner_->set_once(full(key), value);
  }
  void hurry(Seconds patience) override { inner_->hurry(patience); }
  void erase(std::string_view key) override { inner_->erase(full(key)); }

 private:
  std::string full(std::string_view key) const { return prefix_ + std::string(key); }

  const std::shared_ptr<Store> inner_;
  const std::string prefix_;
};

}  // namespace

std::shared_ptr<Store> make_prefix_store(std::shared_ptr<Store> inner, std::string prefix) {
  return std::make_shared<PrefixStore>(std::move(inner), std::move(prefix));
}

}  // namespace tutti
