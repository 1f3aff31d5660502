// NcclBackend: NCCL's collectives on a stream of the communicator's own, in order; the host only looks after them.
#pragma once

#include <atomic>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>

#include "transports/nccl/calls.hpp"
#include "transports/nccl/comm.hpp"
#include "transports/nccl/order.hpp"

namespace tutti::nccl {

/// The communicator of NCCL's, which takes a while and memory of the device, is made when the first call comes, on a
/// thread of its own.
///
/// After a failure NCCL's kernels are told to end, and are waited for for a few seconds, on a thread of its own: the
/// context's other communicators go on. What does not end then may still use its buffers: a line in the log says so.
class NcclBackend final : public Backend {
 public:
  /// Collective; blocks until all members have said which GPU they have. Throws Error{unsupported} with the reason
  /// where NCCL does not serve them.
  explicit NcclBackend(const BackendMeeting& meeting);
  ~NcclBackend() override;

  std::string_view name() const noexcept override { return "nccl"; }
  Status supports(const Collective& call, std::string_view algorithm) const override {
    return supported(call, algorithm);
  }
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
    std::shared_ptr<LaunchOrder::Place> place;  // null: nothing to agree upon
    Issued asked;
    Owned<Event> end = {};  // recorded once it is on the stream
    bool enqueued = false;
  };

  void begin_opening();
  void open() noexcept;
  bool opened();
  bool launch_next();
  bool issue_front_of_unlaunched();
  void enqueued(Playing& playing);
  bool collect(std::deque<Playing>& ended);
  void fail(const Status& why);
  Status failure(std::string_view what, Code code) const;
  Status failure_of(Result state) const;
  void check_device(const Collective& call) const;
  struct Ending {
    Status why;
    std::thread thread;
    std::atomic<bool> over{false};
    bool quiet = false;  // nothing is on the stream any more; written before `over`
  };
  bool wait_for_stream() noexcept;
  bool end_everything() noexcept;
  bool look_for_end() noexcept;

  const std::uint32_t generation_;  // of forks
  const Group group_;
  const int world_rank_;
  const Settings settings_;
  const Library& nccl_;
  Accelerator& accelerator_;
  const int device_;
  const std::shared_ptr<Store> store_;
  std::shared_ptr<LaunchOrder> order_;  // null: one rank, or nobody to ask
  Owned<Stream> stream_;
  Scratch scratch_;

  // The opening's thread writes these before it sets opening_done_.
  std::thread opening_;
  std::atomic<bool> opening_done_{false}, given_up_{false};
  std::unique_ptr<Comm> comm_;
  Status unopened_;

  std::deque<Playing> calls_;  // in their order
  std::size_t launched_ = 0;   // of them, from the front: handed to NCCL
  bool launching_ = false;     // NCCL is still at the last of those
  bool failed_ = false;
  std::unique_ptr<Ending> ending_;  // of all calls; its thread has comm_ and the stream meanwhile
};

}  // namespace tutti::nccl
