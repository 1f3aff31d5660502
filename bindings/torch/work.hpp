// Work: a call of a process group, from its launch until its results are where torch expects them.
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

#include "bindings/torch/group.hpp"
#include "bindings/torch/tensors.hpp"

namespace tutti::torch_binding {

/// A call of a process group as a value.
struct Request {
  c10d::OpType type;
  const char* name;  ///< "all_reduce": for the profiler and for errors
  Tensors inputs;    ///< as the profiler shows them
  std::vector<Block> sources = {};
  std::vector<Block> results = {};  ///< written back when all is done
  Tensors outputs = {};             ///< what result() gives
  std::vector<Tensors> lists = {};  ///< the future's value, where it is a list of lists
  std::vector<Collective> calls = {};
  std::function<void()> last = {};  ///< after the results, before anybody is told
  std::chrono::milliseconds timeout = c10d::kUnsetTimeout;
};

/// Threads: any. Whoever waits completes it; where nobody does, the Completer.
class Work final : public c10d::Work {
 public:
  /// `sequence` is the call's number in its group.
  Work(std::shared_ptr<Group> group, Request request, std::uint64_t sequence);

  /// After the launch, once: takes its parts, which are done when it is. `endless`: they have no deadline; a wait()
  /// without a limit applies the group's.
  void follow(std::vector<tutti::Work> parts, bool endless);
  /// The same of a receive from anyone.
  void follow(Value<int> part);
  void set_source(int rank) noexcept { source_ = rank; }
  /// Instead, where the launch was refused.
  void fail(std::exception_ptr why);

  /// Results to their places, then c10d's finish(), then the future. Once; anyone.
  void complete();

  bool isCompleted() override { return over_; }
  bool wait(std::chrono::milliseconds limit = kNoTimeout) override;
  void synchronize() override;
  Tensors result() override { return request_.outputs; }
  int sourceRank() const override;
  std::uint64_t getSequencenumber() const override { return sequence_; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }
  c10::intrusive_ptr<c10::ivalue::Future> getFutureResult() override { return result_future_; }

  const std::shared_ptr<Group>& group() const noexcept { return group_; }
  const std::vector<tutti::Work>& parts() const noexcept { return parts_; }
  /// Takes back receives that have met no message; see Work::cancel().
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
  [[noreturn]] void give_up(std::chrono::milliseconds limit, const char* why) const;

  const std::shared_ptr<Group> group_;
  Request request_;
  const std::uint64_t sequence_;
  std::optional<at::Device> cuda_;
  std::vector<tutti::Work> parts_;
  std::optional<Value<int>> from_any_;
  std::atomic<int> open_{0};
  bool endless_ = false;
  int source_ = -1;

  std::atomic<bool> claimed_{false}, over_{false};
  std::atomic<std::thread::id> by_{};
  std::optional<c10::Event> on_device_;  // results are there
  c10::intrusive_ptr<c10::ivalue::Future> future_, result_future_;
};

}  // namespace tutti::torch_binding
