// Work: a call of a process group, from its launch until its results are in the tensors.
#pragma once

#include <c10/core/Event.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "bindings/torch/flight_recorder.hpp"
#include "bindings/torch/group.hpp"
#include "bindings/torch/tensors.hpp"

namespace tutti::torch_binding {

/// The description of a call of a process group.
struct Request {
  c10d::OpType type;
  const char* name;  ///< "all_reduce", for the profiler and errors
  Tensors inputs;    ///< the tensors that the profiler shows
  std::vector<Block> sources = {};
  std::vector<Block> results = {};  ///< written back when the call is done
  Tensors outputs = {};             ///< the value of result()
  std::vector<Tensors> lists = {};  ///< the value of the future, if it is a list of lists
  std::vector<Collective> calls = {};
  bool ordered = true;              ///< false: a send or receive, which completes in any order with other calls
  std::function<void()> last = {};  ///< runs after the results have been written, before waiters are notified
  std::chrono::milliseconds timeout = c10d::kUnsetTimeout;
};

/// Threads: any. A thread that waits completes the Work; if no thread waits, the Completer does. In Python,
/// get_future() returns a Future (future.hpp).
class Work final : public c10d::Work {
 public:
  /// `sequence` is the call's number in its group.
  Work(std::shared_ptr<Group> group, Request request, std::uint64_t sequence);

  /// Notes the call in the flight recorder; called before the launch. `from` and `to`: a message's ranks in the group.
  void record(const std::shared_ptr<RecordedProcessGroup>& group, int from = -1, int to = -1);
  /// Called once, after the launch. The Work is done when all `parts` are. `endless`: the parts have no deadline, so
  /// wait() without a limit applies the group's timeout.
  void follow(std::vector<tutti::Work> parts, bool endless);
  /// As follow(parts, true), for a receive from any rank.
  void follow(Value<int> part);
  void set_source(int rank) noexcept { source_ = rank; }
  /// Called instead of follow() if the launch failed.
  void fail(std::exception_ptr why);

  /// Writes the results, calls c10d's finish(), then completes the future. Runs once; any thread may call.
  void complete();

  bool isCompleted() override;
  bool wait(std::chrono::milliseconds limit = kNoTimeout) override;
  void synchronize() override;
  Tensors result() override { return request_.outputs; }
  int sourceRank() const override;
  std::uint64_t getSequencenumber() const override { return sequence_; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }
  c10::intrusive_ptr<c10::ivalue::Future> getFutureResult() override { return result_future_; }

  bool is_ordered() const noexcept { return request_.ordered; }
  bool is_cuda() const noexcept { return cuda_.has_value(); }
  /// True if the program knows that the call is complete: a wait has returned, or isCompleted() was true. On CUDA it is
  /// true from the launch on, because waits only order streams.
  bool is_seen() const noexcept { return seen_ || cuda_; }
  const std::shared_ptr<Group>& group() const noexcept { return group_; }
  const std::vector<tutti::Work>& parts() const noexcept { return parts_; }
  /// Cancels receives that have not matched a message; see tutti::Work::cancel().
  void cancel();

 private:
  void make_futures();
  void complete_on_device();
  void subscribe();
  bool drive(std::chrono::milliseconds limit);
  void drive_without_limit();
  void await_completion();
  std::exception_ptr outcome();
  void write_results();
  void tell_futures(const std::exception_ptr& failure);
  c10::IValue value() const;
  [[noreturn]] void give_up(std::chrono::milliseconds limit, const std::string& why) const;

  const std::shared_ptr<Group> group_;
  Request request_;
  const std::uint64_t sequence_;
  std::optional<at::Device> cuda_;
  std::vector<tutti::Work> parts_;
  std::optional<Value<int>> from_any_;
  std::atomic<int> open_{0};
  bool endless_ = false;
  int source_ = -1;
  FlightRecorder::Ticket ticket_ = 0;

  std::atomic<bool> claimed_{false}, over_{false}, seen_{false};
  std::atomic<std::thread::id> by_{};
  std::optional<c10::Event> on_device_;  // recorded when the results are in the tensors
  c10::intrusive_ptr<c10::ivalue::Future> future_, result_future_;
};

}  // namespace tutti::torch_binding
