// Adapts torch's store to tutti's Store, through which ranks find one another.
#include "bindings/torch/store.hpp"

#include <algorithm>
#include <mutex>
#include <thread>

#include "bindings/torch/signals.hpp"
#include "tutti/status.hpp"
#include "tutti/store.hpp"

namespace tutti::torch_binding {
namespace {

using namespace std::chrono_literals;

class Adapter final : public Store {
  static std::string text(const std::vector<std::uint8_t>& value) { return {value.begin(), value.end()}; }

  template <class Question>
  auto ask(std::string_view what, std::string_view key, Question&& question) {
    const std::lock_guard lock(mutex_);
    try {
      return question();
    } catch (const c10::NotImplementedError&) {
      throw;
    } catch (const std::exception& error) {
      std::string why = error.what();
      why = why.substr(0, why.find('\n'));
      throw Error(Code::peer_lost,
                  "torch's store fails at " + std::string(what) + " of '" + std::string(key) + "': " + why);
    }
  }

 public:
  explicit Adapter(c10::intrusive_ptr<c10d::Store> store) : store_(std::move(store)) {}

  void set(std::string_view key, std::string_view value) override {
    ask("set", key, [&] { store_->set(std::string(key), std::string(value)); });
  }

  std::string wait(std::string_view key, Deadline until) override {
    std::string value;
    for (Clock::duration pause = 500us; !find(key, value); pause = std::min<Clock::duration>(2 * pause, 10ms)) {
      if (Clock::now() >= until)
        throw Error(Code::timeout, "nobody set the key '" + std::string(key) + "' in torch's store in time");
      std::this_thread::sleep_for(pause);
      check_signals();
    }
    return value;
  }

  bool find(std::string_view key, std::string& value) override {
    return ask("get", key, [&] {
      const std::string name(key);
      if (!store_->check({name})) return false;
      value = text(store_->get(name));
      return true;
    });
  }

  std::int64_t add(std::string_view key, std::int64_t amount) override {
    return ask("add", key, [&] { return store_->add(std::string(key), amount); });
  }

  std::string set_once(std::string_view key, std::string_view value) override {
    const std::string name(key);
    try {
      return ask("compareSet", key, [&] {
        return text(store_->compareSet(name, {}, std::vector<std::uint8_t>(value.begin(), value.end())));
      });
    } catch (const c10::NotImplementedError&) {  // instead, the first rank that increments a counter writes the value
      if (add(name + "/claim", 1) == 1) set(key, value);
      return wait(key, deadline_in(Seconds(60)));
    }
  }

  void hurry(Seconds patience) override {
    const std::lock_guard lock(mutex_);
    store_->setTimeout(std::chrono::duration_cast<std::chrono::milliseconds>(patience));
  }

  void erase(std::string_view key) override {
    ask("deleteKey", key, [&] { store_->deleteKey(std::string(key)); });
  }

 private:
  std::mutex mutex_;
  c10::intrusive_ptr<c10d::Store> store_;
};

}  // namespace

std::shared_ptr<Store> adapt(const c10::intrusive_ptr<c10d::Store>& store) {
  try {
    return std::make_shared<Adapter>(store->clone());
  } catch (const std::exception&) {  // the store cannot be cloned
    return std::make_shared<Adapter>(store);
  }
}

}  // namespace tutti::torch_binding
