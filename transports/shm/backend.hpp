// ShmBackend: collectives over memory shared by the ranks of a host; the Backend "shm".
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "transports/shm/engines.hpp"
#include "tutti/provider/backend.hpp"

namespace tutti::shm {

/// Runs the calls of a communicator one at a time, in the order of start(), which is the same on all ranks. The calls
/// share one slab, which is the communicator's part of the shared memory.
class ShmBackend final : public Backend, private Tracker {
 public:
  static constexpr std::string_view own_name = "shm";

  /// Parameters as for GroupMemory.
  ShmBackend(std::shared_ptr<HostState> host_state, const Group& group, std::vector<int> locals, bool all_read_all);
  ~ShmBackend() override { rest(); }

  std::string_view name() const noexcept override { return own_name; }
  Status supports(const Collective& call, std::string_view algorithm) const override;
  void start(Call& call) override;
  bool reports_waiting() const noexcept override { return true; }
  void cancel(const Status& why) noexcept override;

  bool progress() override;
  Fds fds() const noexcept override { return {}; }  // the wire's descriptor wakes this backend too
  bool arm(bool on) override;

 private:
  // In the order of engine_names(), in which "" is by_size. `meeting` comes last because it has no name there.
  enum class Engine { by_size, low_latency, one_shot, two_copy, zero_copy, cma, meeting };
  static std::string_view name_of(Engine engine) noexcept;
  static Engine named(std::string_view algorithm) noexcept;
  std::string where(const Call& call) const override;
  void partners(const Call& call, std::vector<int>& ranks) const override;
  Engine first_engine(const ShmCall& call, Engine wanted) const;
  void play();
  void begin_next();
  bool step();
  void fail(const Status& status);
  void end();
  void withdraw(const Status& why) noexcept;
  bool gone(int peer) const noexcept;
  // The wire drives this backend from be_driven() to rest(), while the backend has calls.
  void be_driven() {
    if (!is_driven_) memory_.add_busy(*this);
    is_driven_ = true;
  }
  void rest() noexcept {
    if (is_driven_) memory_.remove_busy(*this);
    is_driven_ = false;
  }

  GroupMemory memory_;
  std::vector<Call*> queue_;
  std::size_t next_ = 0;  // index in the queue; the calls before it have ended
  bool begun_ = false;    // true if queue_[next_] has begun
  bool is_driven_ = false;
  bool failed_ = false;  // a call has failed: the communicator ends, and the waiting calls are about to be cancelled
  ShmCall call_;
  Engine wanted_ = Engine::by_size;  // the engine that Call::algorithm names for call_
  Engine engine_ = Engine::low_latency;
  EngineTask task_;
  Awaited awaited_;
  std::uint64_t calls_ = 0, rounds_ = 0;  // statistics so far
  int late_calls_ = 0;                    // consecutive small calls that did not end in start()
  int patience_ = 0;                      // polls left until the next check whether the awaited rank has left
};

/// The engines of `kind`, by the names that tuning rules and Call::algorithm use. The first name is "": the engine is
/// chosen by size. Empty for Kind::send.
std::span<const std::string_view> engine_names(Kind kind);

}  // namespace tutti::shm
