#include "collectives/runtime/deferred.hpp"

#include <exception>
#include <string>

#include "tutti/log.hpp"

namespace tutti {

void Deferred::push(std::function<void()> callback) {
  const std::lock_guard lock(mutex_);
  callbacks_.push_back(std::move(callback));
  any_.store(true);
}

void Deferred::run() noexcept {
  std::vector<std::function<void()>> callbacks;
  {
    const std::lock_guard lock(mutex_);
    callbacks.swap(callbacks_);
    any_.store(false);
  }
  for (auto& callback : callbacks) {
    try {
      callback();
    } catch (const std::exception& error) {
      log(LogLevel::error, std::string("a then() callback threw: ") + error.what());
    } catch (...) {
      log(LogLevel::error, "a then() callback threw what is no std::exception");
    }
  }
}

}  // namespace tutti
