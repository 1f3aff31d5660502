// Batch: several calls launched as one Work.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "collectives/runtime/operation.hpp"
#include "collectives/runtime/packing.hpp"
#include "collectives/runtime/pool.hpp"
#include "collectives/runtime/progress.hpp"
#include "tutti/work.hpp"

namespace tutti {

/// Starts its operations in order, without releasing the progress token in between. Done when all operations are done.
/// If some fail, the batch fails with the error of the first one in order. Each operation has its own deadline and is
/// cancelled like any other call.
class Batch final : public WorkState, public Startable {
 public:
  using Spare = Pool<Batch>;
  /// When the batch is done and all its handles are dropped, it is given to `spare`, which `keeper` keeps alive.
  void prepare(std::shared_ptr<Driver> keeper, Spare& spare, std::uint64_t group, bool is_detached);
  /// Packs several calls into one. The batch owns the packed call, and unpacks its result.
  Collective& pack(std::span<const Collective> calls, const Group& group);
  /// Adds a prepared operation, and keeps a handle of it. Before the launch.
  void add(Operation& operation);
  /// Called after the last add(). From here on the batch completes when all operations have completed.
  void follow();
  bool is_empty() const noexcept { return operations_.empty(); }
  /// Completes an empty batch without launching it.
  void give_up() { finish(); }

  std::uint64_t group_id() const noexcept { return group_; }
  /// The first operation that is not done; null if there is none.
  const Operation* first_running() const noexcept;

  bool start() override;
  bool look() override;
  void join(const Stream& stream) override;
  std::string explain(const Status& status) const override;

 private:
  void retire() noexcept override;
  const Operation* first_failed() const noexcept;
  void one_ended();
  void finish();

  Spare* spare_ = nullptr;
  std::uint64_t group_ = 0;
  std::deque<Packing> packed_;
  std::vector<Operation*> operations_;
  std::vector<Work> works_;  // handles of operations_
  std::atomic<std::size_t> open_{0};
  std::atomic<bool> finished_{false};
  std::size_t seen_done_ = 0;  // number of leading operations known to be done; token held
};

}  // namespace tutti
