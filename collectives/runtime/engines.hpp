// Engines: the context's transport and all other engines, driven as one.
#pragma once

#include <memory>
#include <vector>

#include "tutti/provider/transport.hpp"

namespace tutti {

/// All functions are for the holder of the progress token.
class Engines {
 public:
  explicit Engines(Transport& wire) : wire_(wire) {}

  void add(std::shared_ptr<Engine> engine) { others_.push_back(std::move(engine)); }
  /// Makes polled() return true from now on. Called if a descriptor could not be watched.
  void poll_all() noexcept { deaf_ = true; }
  /// Destroys engines with no other owner; closing their descriptors removes them from the epoll sets.
  void drop_unused() {
    std::erase_if(others_, [](const auto& engine) { return engine.use_count() == 1; });
  }

  bool progress() {
    bool moved = wire_.progress();
    for (const auto& engine : others_) moved |= engine->progress();
    return moved;
  }
  bool arm(bool on) {
    if (!on && !armed_) return true;
    armed_ = on;
    bool armed = wire_.arm(on);
    for (const auto& engine : others_) armed &= engine->arm(on);
    return armed;
  }
  bool polled() const noexcept {
    bool any = deaf_ || wire_.polled();
    for (const auto& engine : others_) any |= engine->polled();
    return any;
  }
  /// Calls `each` with every descriptor that becomes readable when progress() has something to do.
  template <class Each>
  void sleep_fds(Each each) const {
    if (const int fd = wire_.fds().sleep; fd >= 0) each(fd);
    for (const auto& engine : others_)
      if (const int fd = engine->fds().sleep; fd >= 0) each(fd);
  }

 private:
  Transport& wire_;
  std::vector<std::shared_ptr<Engine>> others_;
  bool deaf_ = false;
  bool armed_ = false;  // true: at least some engines are armed
};

}  // namespace tutti
