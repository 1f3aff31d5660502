// NcclBackend: NCCL's collectives, enqueued in order on the communicator's own stream; the host only tracks their
// completion.
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

/// The NCCL communicator, which takes time and device memory, is created by the first call, on a thread of its own.
///
/// After a failure another thread aborts NCCL and waits a few seconds for its end. Meanwhile the other communicators of
/// the context continue. If NCCL does not end in time, it may still use the buffers of its calls; this is logged.
class NcclBackend final : public Backend, private Tracker {
 public:
  /// Collective; blocks until all members have published their GPU. Throws Error{unsupported} with the reason if NCCL
  /// cannot serve them.
  explicit NcclBackend(const BackendMeeting& meeting);
  ~NcclBackend() override;

  std::string_view name() const noexcept override { return "nccl"; }
  Status supports(const Collective& call, std::string_view algorithm) const override {
    return supported(call, algorithm);
  }
  void start(Call& call) override;
  void cancel(const Status& why) noexcept override;

  bool progress() override;
  Fds fds() const noexcept override { return {}; }
  bool arm(bool) override { return true; }
  bool polled() const noexcept override { return !calls_.empty(); }

 private:
  struct Playing {
    Call* call = nullptr;
    std::shared_ptr<LaunchOrder::Place> place;  // null: no ordering is needed
    Issued asked;
    Owned<Event> end = {};  // recorded after the call was enqueued
    bool enqueued = false;
  };

  std::string where(const Call& call) const override;
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

  const std::uint32_t generation_;  // of tutti/fork.hpp, to detect a forked child
  const Group group_;
  const int world_rank_;
  const Settings settings_;
  const Library& nccl_;
  Accelerator& accelerator_;
  const int device_;
  const std::shared_ptr<Store> store_;
  std::shared_ptr<LaunchOrder> order_;  // null: one rank, no wire, or the setting nccl_order is "issued"
  Owned<Stream> stream_;
  Scratch scratch_;

  // Written by the opening thread before it sets opening_done_.
  std::thread opening_;
  std::atomic<bool> opening_done_{false}, given_up_{false};
  std::unique_ptr<Comm> comm_;
  Status unopened_;

  std::deque<Playing> calls_;  // in launch order
  std::size_t launched_ = 0;   // number of calls at the front of calls_ that were issued to NCCL
  bool launching_ = false;     // NCCL is still launching the last one of them
  bool failed_ = false;
  std::unique_ptr<Ending> ending_;  // set while all calls end; its thread then owns comm_ and the stream
};

}  // namespace tutti::nccl
