// Engines: what a context drives, as one: its transport, and the backends with collectives of their own.
#pragma once

#include <memory>
#include <vector>

#include "transports/transport.hpp"

namespace tutti {

/// Token holder only.
class Engines {
 public:
  explicit Engines(Transport& wire) : wire_(wire) {}

  void add(std::shared_ptr<Engine> engine) { others_.push_back(std::move(engine)); }
  /// From here on all are polled: somebody's bell cannot be heard.
  void poll_all() noexcept { deaf_ = true; }
  /// Ends those that nobody else holds; their descriptors leave the epolls by being closed.
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
  /// `each` with every descriptor that rings when progress() would find something.
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
  bool armed_ = false;  // some of them, at least
};

}  // namespace tutti
