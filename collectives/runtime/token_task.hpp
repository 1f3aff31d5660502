// TokenTask: a short function that runs with the progress token held while a thread waits for it.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <utility>

#include "collectives/runtime/progress.hpp"
#include "tutti/work.hpp"

namespace tutti {

/// See Context::do_holding.
class TokenTask final : public WorkState, public Startable {
 public:
  TokenTask(std::shared_ptr<Driver> driver, std::function<void()> what) : what_(std::move(what)) {
    prepare(std::move(driver));
  }

  bool start() override {
    const Ref<TokenTask> self = Ref<TokenTask>::adopt(*this);
    try {
      what_();
    } catch (...) {
      thrown_ = std::current_exception();
    }
    complete({});
    return false;
  }

  /// Rethrows the function's exception, if any. To be called after the task is done.
  void check() const {
    if (thrown_) std::rethrow_exception(thrown_);
  }

 private:
  std::function<void()> what_;
  std::exception_ptr thrown_;
};

}  // namespace tutti
