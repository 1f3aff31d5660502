// A view of a store that adds a prefix to every key, so that parts of a job do not share keys. Keys of the whole job
// begin with the character `mark`: only the job's own view adds its prefix to them.
#include "tutti/store.hpp"

namespace tutti {
namespace {

constexpr char mark = '\x1f';

class PrefixStore final : public Store {
 public:
  PrefixStore(std::shared_ptr<Store> inner, std::string prefix, bool is_job)
      : Store(inner->is_one_server()), inner_(std::move(inner)), prefix_(std::move(prefix) + "/"), is_job_(is_job) {}

  void set(std::string_view key, std::string_view value) override { inner_->set(full(key), value); }
  std::string wait(std::string_view key, Deadline until) override { return inner_->wait(full(key), until); }
  std::string wait_unless(std::string_view key, std::string_view unless, Deadline until) override {
    return inner_->wait_unless(full(key), unless.empty() ? std::string() : full(unless), until);
  }
  std::vector<std::string> set_and_wait(std::string_view key, std::string_view value, std::span<const Awaited> keys,
                                        Deadline until) override {
    std::vector<Awaited> fulls;
    for (const Awaited& one : keys)
      fulls.push_back({full(one.key), one.unless.empty() ? std::string() : full(one.unless)});
    return inner_->set_and_wait(full(key), value, fulls, until);
  }
  bool find(std::string_view key, std::string& value) override { return inner_->find(full(key), value); }
  std::int64_t add(std::string_view key, std::int64_t amount) override { return inner_->add(full(key), amount); }
  std::string set_once(std::string_view key, std::string_view value) override {
    return inner_->set_once(full(key), value);
  }
  void hurry(Seconds patience) override { inner_->hurry(patience); }
  void set_at_end(std::string_view key, std::string_view value) override { inner_->set_at_end(full(key), value); }
  void erase(std::string_view key) override { inner_->erase(full(key)); }

 private:
  std::string full(std::string_view key) const {
    if (!key.starts_with(mark)) return prefix_ + std::string(key);
    return is_job_ ? prefix_ + std::string(key.substr(1)) : std::string(key);
  }

  const std::shared_ptr<Store> inner_;
  const std::string prefix_;
  const bool is_job_;
};

}  // namespace

std::shared_ptr<Store> make_prefix_store(std::shared_ptr<Store> inner, std::string prefix) {
  return std::make_shared<PrefixStore>(std::move(inner), std::move(prefix), false);
}

std::shared_ptr<Store> make_job_store(std::shared_ptr<Store> inner, std::string prefix) {
  return std::make_shared<PrefixStore>(std::move(inner), std::move(prefix), true);
}

std::string departure_key(int rank) { return mark + ("gone/" + std::to_string(rank)); }

std::string departure_text(int rank, std::string_view how) { return std::to_string(rank) + " " + std::string(how); }

}  // namespace tutti
