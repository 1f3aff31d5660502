// Stores: those implemented by the caller as C functions, and those opened by URL.
#include <algorithm>
#include <cstdint>

#include "bindings/c/handles.hpp"
#include "tutti/clock.hpp"
#include "tutti/store.hpp"

namespace tutti::c {
namespace {

/// Threads: any. Takes no lock, so that a waiting call does not block other calls.
class CalledStore final : public Store {
 public:
  explicit CalledStore(const tutti_store_ops& ops) : ops_(ops) {}

  void set(std::string_view key, std::string_view value) override {
    check("set", key, ops_.set(ops_.user, key.data(), key.size(), value.data(), value.size()));
  }

  std::string wait(std::string_view key, Deadline until) override {
    std::string value;
    for (;;) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
      const std::int64_t patience = std::clamp<std::int64_t>(left, 0, longest_wait);
      if (read("wait", key, value, [&](void* into, std::size_t* bytes) {
            return ops_.wait(ops_.user, key.data(), key.size(), into, bytes, patience);
          }))
        return value;
      if (Clock::now() >= until)
        throw Error(Code::timeout, "the program's store still has no value for " + shown(key) + " at the deadline");
    }
  }

  bool find(std::string_view key, std::string& value) override {
    return read("find", key, value, [&](void* into, std::size_t* bytes) {
      return ops_.find(ops_.user, key.data(), key.size(), into, bytes);
    });
  }

  std::int64_t add(std::string_view key, std::int64_t amount) override {
    std::int64_t now = 0;
    check("add", key, ops_.add(ops_.user, key.data(), key.size(), amount, &now));
    return now;
  }

  std::string set_once(std::string_view key, std::string_view value) override {
    std::string got;
    if (!read("set_once", key, got, [&](void* into, std::size_t* bytes) {
          return ops_.set_once(ops_.user, key.data(), key.size(), value.data(), value.size(), into, bytes);
        }))
      fail("set_once", key, 1);
    return got;
  }

  void erase(std::string_view key) override {
    if (ops_.erase == nullptr) return;
    const int answer = ops_.erase(ops_.user, key.data(), key.size());
    if (answer != 1) check("erase", key, answer);
  }

 private:
  static constexpr std::int64_t longest_wait = 10000;
  static constexpr std::size_t longest_value = std::size_t{1} << 20;

  static std::string shown(std::string_view key) { return "'" + std::string(key) + "'"; }
  [[noreturn]] static void fail(const char* what, std::string_view key, int answer) {
    throw Error(Code::resource, "the program's store failed: " + std::string(what) + " of " + shown(key) +
                                    " returned " + std::to_string(answer));
  }
  static void check(const char* what, std::string_view key, int answer) {
    if (answer != 0) fail(what, key, answer);
  }

  /// Repeats the call until the buffer is large enough. Returns false if the key does not exist.
  template <class Call>
  static bool read(const char* what, std::string_view key, std::string& value, const Call& call) {
    std::size_t room = 4096;
    for (;;) {
      value.resize(room);
      std::size_t bytes = room;
      const int answer = call(value.data(), &bytes);
      if (answer == 1) return false;
      check(what, key, answer);
      if (bytes > longest_value) fail(what, key, answer);
      value.resize(std::min(bytes, room));
      if (bytes <= room) return true;
      room = bytes;
    }
  }

  const tutti_store_ops ops_;
};

}  // namespace
}  // namespace tutti::c

using namespace tutti;
using namespace tutti::c;

extern "C" {

tutti_result tutti_store_create(const tutti_store_ops* ops, tutti_store* store) {
  return guarded([&] {
    const tutti_store_ops all = completed(ops, tutti_store_ops{}, "ops");
    given(all.set, "ops->set");
    given(all.wait, "ops->wait");
    given(all.find, "ops->find");
    given(all.add, "ops->add");
    given(all.set_once, "ops->set_once");
    *given(store, "store") = new tutti_store_s{std::make_shared<CalledStore>(all)};
  });
}

tutti_result tutti_store_open(const char* url, const char* secret, tutti_store* store) {
  return guarded([&] {
    given(store, "store");
    const Deadline until = deadline_in(Seconds(Settings::from_environment().connect_timeout));
    *store = new tutti_store_s{open_store(given(url, "url"), secret != nullptr ? secret : "", until)};
  });
}

tutti_result tutti_store_free(tutti_store store) {
  return guarded([&] {
    if (store != nullptr) delete &usable(store, "store");
  });
}

}  // extern "C"
