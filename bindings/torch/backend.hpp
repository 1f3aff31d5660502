// Backend: the process group backend of torch.distributed, implemented with a Communicator.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "bindings/torch/group.hpp"
#include "bindings/torch/tensors.hpp"
#include "bindings/torch/work.hpp"

namespace tutti::torch_binding {

/// The arguments with which torch creates a group.
struct Origin {
  c10::intrusive_ptr<c10d::Store> store;
  int rank = 0;
  int size = 1;
  std::vector<std::int64_t> members = {};  ///< the group's ranks in the default group; empty: all of them
  std::string id = {};                     ///< name of the group, the same on its members
  std::optional<Communicator> made = {};   ///< the group's communicator; without it, the Backend makes one
  bool is_world = false;                   ///< of `made`: it has the ranks that are left of a job
};

/// Implements c10d::Backend, which documents the calls. Unlike Gloo it also supports tensors with any strides,
/// all_gather and all_to_all of lists of different sizes, PREMUL_SUM and int16.
///
/// Threads: any. The caller makes sure that all ranks issue the calls of a group in the same order. Errors: wrong
/// arguments throw RuntimeError from the call; all other errors are DistBackendError from Work::wait().
class Backend final : public c10d::Backend {
 public:
  struct Options : c10d::Backend::Options {
    explicit Options(std::string name, std::chrono::milliseconds limit = kBackendDefaultTimeout)
        : c10d::Backend::Options(std::move(name), limit) {}
    std::string algorithm;  ///< overrides the rules for all calls; equal on all ranks
  };
  using Made = c10::intrusive_ptr<c10d::Work>;

  /// Blocks until all ranks of the group have joined.
  Backend(const Origin& origin, c10::intrusive_ptr<Options> options);
  ~Backend() override;

  /// Shuts down all live Backends, each with a timeout of `patience`. Afterwards no thread of this module uses Python.
  static void leave_all(Seconds patience);

  const std::string getBackendName() const override { return group_->name(); }
  c10::intrusive_ptr<c10d::Backend::Options> getBackendOptions() override { return options_; }
  void setTimeout(std::chrono::milliseconds limit) override;
  /// The group's communicator. Throws after shutdown().
  Communicator communicator() const { return group_->communicator(); }

  Made broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  Made allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  Made allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  Made allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) override;
  Made reduce(Tensors& tensors, const c10d::ReduceOptions& options) override;
  Made allgather(std::vector<Tensors>& out, Tensors& in, const c10d::AllgatherOptions& options) override;
  Made _allgather_base(at::Tensor& out, at::Tensor& in, const c10d::AllgatherOptions& options) override;
  Made allgather_coalesced(std::vector<Tensors>& out, Tensors& in, const c10d::AllgatherOptions& options) override;
  Made allgather_into_tensor_coalesced(Tensors& out, Tensors& in, const c10d::AllgatherOptions& options) override;
  Made reduce_scatter(Tensors& out, std::vector<Tensors>& in, const c10d::ReduceScatterOptions& options) override;
  Made _reduce_scatter_base(at::Tensor& out, at::Tensor& in, const c10d::ReduceScatterOptions& options) override;
  Made reduce_scatter_tensor_coalesced(Tensors& out, Tensors& in, const c10d::ReduceScatterOptions& options) override;
  Made gather(std::vector<Tensors>& out, Tensors& in, const c10d::GatherOptions& options) override;
  Made scatter(Tensors& out, std::vector<Tensors>& in, const c10d::ScatterOptions& options) override;
  Made alltoall_base(at::Tensor& out, at::Tensor& in, std::vector<std::int64_t>& out_splits,
                     std::vector<std::int64_t>& in_splits, const c10d::AllToAllOptions& options) override;
  Made alltoall(Tensors& out, Tensors& in, const c10d::AllToAllOptions& options) override;
  Made barrier(const c10d::BarrierOptions& options) override;

  Made send(Tensors& tensors, int to, int tag) override;
  Made recv(Tensors& tensors, int from, int tag) override;
  Made recvAnysource(Tensors& tensors, int tag) override;
  void monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all) override;

  void setSequenceNumberForGroup() override { sequence_ = 0; }
  std::uint64_t getSequenceNumberForGroup() override { return sequence_; }
  void startCoalescing() override;
  Made endCoalescing() override;

  bool supportsSplitting() const override { return true; }
  c10::intrusive_ptr<c10d::Backend> split(const c10::intrusive_ptr<c10d::Store>& store, const std::vector<int>& ranks,
                                          const c10::intrusive_ptr<c10d::Backend::Options>& options) override;
  c10::intrusive_ptr<c10d::Backend> merge(const c10::intrusive_ptr<c10d::Store>& store,
                                          const c10::intrusive_ptr<c10d::Backend::Options>& options, const int& rank,
                                          const int& size) override;
  void eagerConnectSingleDevice(at::Device) override {}

  /// The backend of the ranks that are left, without those to exclude; see shrinking.cpp. All ranks that are not
  /// excluded and not dead call it; blocks until they have. This group remains, failed or not.
  bool supportsShrinking() const override { return true; }
  c10::intrusive_ptr<c10d::Backend> shrink(const std::vector<std::int64_t>& excluded, int flags,
                                           const c10::intrusive_ptr<c10d::Backend::Options>& options) override;
  /// The ranks of the group that are dead. All others call it, and get the same list; blocks until they have.
  std::vector<int> lost_ranks();

  c10d::ErrorType getError() override;
  void abort() override;
  void shutdown() override;

  std::shared_ptr<c10::Allocator> getMemAllocator() override;
  bool supportsTensorAlloc(c10::DeviceIndex) override { return true; }
  at::Tensor allocateTensor(long size, at::TensorOptions options) override;

 private:
  struct Launched {
    const CallbackQueue* by;  // nullptr: outside of callbacks
    tutti::Work work;
  };
  void connect(const Origin& origin);
  void leave(Seconds patience);
  void learn_names();
  Made start(Request request);
  Made start_sparse(const at::Tensor& tensor, const c10d::AllreduceOptions& options);
  Communicator here(const char* call) const;
  c10::intrusive_ptr<Options> options_of_shrunk(const c10::intrusive_ptr<c10d::Backend::Options>& given) const;
  void count_in(const tutti::Work& collective);
  std::vector<tutti::Work> earlier_collectives();
  CallOptions call_options(const Request& request, double seconds) const;
  Made message(Request request, int to, int from, int tag);
  tutti::Work byte_to(int rank, std::byte& one, bool sends);
  void monitor(std::chrono::milliseconds limit, bool wait_all);
  void remember(const c10::intrusive_ptr<Work>& work);
  void check_alike(const Tensors& tensors, const char* call) const;
  std::size_t ranks() const noexcept { return static_cast<std::size_t>(size_); }

  c10::intrusive_ptr<Options> options_;
  const bool is_default_;  // torch's default group, whose ranks are numbered anew when it is shrunk
  bool is_world_ = false;  // all ranks of a job of its own, or those that are left of one; set once, by connect()
  std::shared_ptr<Group> group_;
  std::atomic<std::uint64_t> sequence_{0};
  std::mutex mutex_;
  std::atomic<bool> named_{false};
  std::shared_ptr<RecordedProcessGroup> recorded_;       // set once, before `named_`; null if nothing is recorded
  std::vector<c10::weak_intrusive_ptr<Work>> messages_;  // sends and receives in flight
  std::vector<Launched> collectives_;                    // collectives in flight, which a barrier waits for
  std::optional<std::vector<c10::intrusive_ptr<Work>>> coalescing_;
};

}  // namespace tutti::torch_binding
