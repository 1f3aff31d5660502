// EngineTask: a collective as a coroutine that suspends while it waits for words in shared memory.
#pragma once

#include <coroutine>
#include <exception>
#include <utility>

#include "transports/shm/group_memory.hpp"
#include "tutti/status.hpp"

namespace tutti::shm {

struct ShmCall;

/// resume() runs the engine up to its next wait. The engine ends with a Status. GroupMemory holds the coroutine's frame
/// and has space for one frame, so an engine never starts another. The destructor ends the engine at its current wait.
class EngineTask {
 public:
  struct promise_type {
    static void* operator new(std::size_t bytes, GroupMemory& memory, const ShmCall& /*call*/) {
      return memory.frame(bytes);
    }
    static void operator delete(void* /*memory*/, std::size_t /*bytes*/) {}

    EngineTask get_return_object() { return EngineTask(std::coroutine_handle<promise_type>::from_promise(*this)); }
    std::suspend_always initial_suspend() const noexcept { return {}; }
    std::suspend_always final_suspend() const noexcept { return {}; }
    void return_value(Status status) { ended_with = std::move(status); }
    void unhandled_exception() { error = std::current_exception(); }

    Status ended_with;
    std::exception_ptr error;
  };

  EngineTask() noexcept = default;
  EngineTask(EngineTask&& other) noexcept : engine_(std::exchange(other.engine_, nullptr)) {}
  EngineTask& operator=(EngineTask&& other) noexcept {
    std::swap(engine_, other.engine_);
    return *this;
  }
  ~EngineTask() {
    if (engine_) engine_.destroy();
  }

  explicit operator bool() const noexcept { return static_cast<bool>(engine_); }
  bool done() const noexcept { return engine_.done(); }
  void resume() { engine_.resume(); }
  /// Call only once done() is true. Rethrows the engine's exception, if it threw one.
  Status result() const {
    if (engine_.promise().error) std::rethrow_exception(engine_.promise().error);
    return engine_.promise().ended_with;
  }
  void drop() { EngineTask gone(std::move(*this)); }

 private:
  explicit EngineTask(std::coroutine_handle<promise_type> engine) noexcept : engine_(engine) {}
  std::coroutine_handle<promise_type> engine_;
};

}  // namespace tutti::shm
