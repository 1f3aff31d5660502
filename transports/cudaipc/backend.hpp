// IpcBackend: collectives of processes of one host, on one GPU or on GPUs that reach one another: each reads what the
// others have, and in a large allreduce writes to their results. Nothing on a device ever waits for another process.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "transports/cudaipc/call.hpp"

namespace tutti::cudaipc {

/// One, without a name, for every kind but send and barrier.
std::span<const std::string_view> algorithms(Kind kind) noexcept;

/// The host's part of one call follows that of the call before; what is on the streams overlaps.
///
/// After a failure what is on the stream is waited for, without the token, a few seconds at most; and where other ranks
/// may write to results of this one, until they have said that they do so no more, or have ended.
class IpcBackend final : public Backend {
 public:
  /// Collective; blocks. Throws Error{unsupported} where these ranks cannot share memory.
  explicit IpcBackend(const BackendMeeting& meeting);
  ~IpcBackend() override;

  std::string_view name() const noexcept override { return "cudaipc"; }
  Status supports(const Collective& call, std::string_view algorithm) const override;
  void start(Call& call) override;
  void cancel(const Status& why) noexcept override;
  std::string where(std::uint32_t sequence) const override;

  bool progress() override;
  Fds fds() const noexcept override { return {}; }
  bool arm(bool) override { return true; }
  bool polled() const noexcept override { return !calls_.empty(); }

 private:
  struct Playing {
    Call* call = nullptr;
    std::unique_ptr<IpcCall> play = {};
    Owned<Event> end = {};
    std::uint64_t pieces = 0;  // of the communicator, up to this call's last
    bool begun = false, enqueued = false;
  };

  struct Ending {
    Status why;
    Deadline until;
    bool marked = false;    // quiet_ is of all that was on the stream
    bool is_quiet = false;  // all of it is done, and the others know
  };

  bool carry_on();
  bool step(Playing& playing);
  void check_device(const Collective& call) const;
  void fail(const Status& why);
  Status failure(std::string_view what, Code code) const;
  bool stream_is_done() noexcept;
  bool look_for_end() noexcept;

  const std::uint32_t generation_;  // of forks
  const int world_rank_;
  std::unique_ptr<Room> room_;
  Owned<Event> quiet_;
  std::deque<Playing> calls_;
  bool failed_ = false, restless_ = false;  // the latter: what was on the stream did not end in time
  std::optional<Ending> ending_;            // of all calls
};

}  // namespace tutti::cudaipc
