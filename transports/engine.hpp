// Engine: what moves only when it is driven. A context turns all its engines with one token.
#pragma once

namespace tutti {

/// A part of a context that has work under way: a transport, or a backend with collectives of its own.
///
/// Threads: every call but watch() is made by the holder of the context's progress token, so
/// implementations need no locks against one another.
class Engine {
 public:
  Engine() = default;
  virtual ~Engine() = default;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Moves pending operations forward, for at most about 50 us, and reports what finished.
  /// True when something moved.
  virtual bool progress() = 0;

  /// Sleeping. `sleep` becomes readable when progress() would find something, provided that
  /// arm(true) was called after the last progress() and answered true (false: there is something
  /// already). arm(false) ends that; both are cheap when nothing changes. `watch` becomes readable
  /// at any time when watch() has something to see; -1 where an engine has none.
  struct Fds {
    int sleep = -1;
    int watch = -1;
  };
  virtual Fds fds() const noexcept = 0;
  virtual bool arm(bool on) = 0;

  /// True while something is under way that no descriptor tells of, as in a library without a wait handle:
  /// whoever would sleep looks again after intervals that grow to 1 ms.
  virtual bool polled() const noexcept { return false; }

  /// Looks at what tells of dead ranks. Called by the background thread, without the token.
  virtual void watch() {}
};

}  // namespace tutti
