// Engine: the interface of everything that needs polling. A context polls all its engines under one progress token.
#pragma once

namespace tutti {

/// A component of a context with work in flight: a transport, or a backend with collectives of its own.
///
/// Threads: every call except watch() is made by the holder of the context's progress token, so implementations need no
/// locks against one another.
class Engine {
 public:
  Engine() = default;
  virtual ~Engine() = default;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Makes progress on pending operations for at most about 50 us, and reports those that finished. Returns true if
  /// there was progress.
  virtual bool progress() = 0;

  /// Descriptors for sleeping. `sleep` becomes readable when progress() has something to do, provided that arm(true)
  /// was called after the last progress() and returned true (false: there is something to do already). arm(false)
  /// disarms; both are cheap if nothing changes. `watch` becomes readable whenever watch() has something to do; -1 if
  /// there is none.
  struct Fds {
    int sleep = -1;
    int watch = -1;
  };
  virtual Fds fds() const noexcept = 0;
  virtual bool arm(bool on) = 0;

  /// True while work is in flight that no descriptor reports, as in a library without a wait handle. A sleeping thread
  /// then polls at intervals that grow to 1 ms.
  virtual bool polled() const noexcept { return false; }

  /// Checks for dead ranks. Called by the background thread, without the progress token.
  virtual void watch() {}
};

}  // namespace tutti
