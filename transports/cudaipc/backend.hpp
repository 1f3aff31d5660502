// IpcBackend: collectives between processes on one host whose GPUs can access each other's memory. Each rank reads
// the others' buffers, and in a large allreduce writes to their results. No stream ever waits for another process.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "transports/cudaipc/call.hpp"

namespace tutti::cudaipc {

/// One unnamed algorithm for every kind except send and barrier.
std::span<const std::string_view> algorithms(Kind kind) noexcept;

/// The host performs calls in order. It starts a call as soon as the previous one is enqueued on the stream; it does
/// not wait until that one has completed.
///
/// After a failure the backend waits, for 3 seconds at most, until its stream is done. If other ranks may write to this
/// rank's results, it also waits until each of them has reported that it has stopped, or has exited. progress() polls
/// for this; only the destructor blocks.
class IpcBackend final : public Backend, private Tracker {
 public:
  /// Collective; blocks. Throws Error{unsupported} if these ranks cannot share memory.
  explicit IpcBackend(const BackendMeeting& meeting);
  ~IpcBackend() override;

  std::string_view name() const noexcept override { return "cudaipc"; }
  Status supports(const Collective& call, std::string_view algorithm) const override;
  void start(Call& call) override;
  void cancel(const Status& why) noexcept override;

  bool progress() override;
  Fds fds() const noexcept override { return {}; }
  bool arm(bool) override { return true; }
  bool polled() const noexcept override { return !calls_.empty(); }

 private:
  struct Playing {
    Call* call = nullptr;
    std::unique_ptr<IpcCall> play = {};
    Owned<Event> end = {};
    std::uint64_t pieces = 0;  // Room::pieces() after this call
    bool begun = false, enqueued = false;
  };

  struct Ending {
    Status why;
    Deadline until;
    bool marked = false;    // quiet_ was recorded at the end of the stream
    bool is_quiet = false;  // the stream is done, and the other ranks know
  };

  std::string where(const Call& call) const override;
  bool carry_on();
  bool step(Playing& playing);
  void check_device(const Collective& call) const;
  void fail(const Status& why);
  Status failure(std::string_view what, Code code) const;
  bool stream_is_done() noexcept;
  bool look_for_end() noexcept;

  const std::uint32_t generation_;  // of tutti/fork.hpp, to detect a forked child
  const int world_rank_;
  std::unique_ptr<Room> room_;
  Owned<Event> quiet_;
  std::deque<Playing> calls_;
  bool failed_ = false, restless_ = false;  // restless_: the stream was not done in time
  std::optional<Ending> ending_;            // set after a failure: how all calls end
};

}  // namespace tutti::cudaipc
