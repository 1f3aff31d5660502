// Batch: several calls launched as one.
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
#include "transports/core/work.hpp"

namespace tutti {

/// Starts its operations in their order under one turn; is done when all are, and fails with the failure of the first
/// that failed. Each of them is an ordinary call, which has a deadline and is ended by failures by itself.
class Batch final : public WorkState, public Startable {
 public:
  using Spare = Pool<Batch>;
  /// When it is over and its handles have gone, this goes back to `spare`, which `keeper` keeps.
  void prepare(std::shared_ptr<Driver> keeper, Spare& spare, std::uint64_t group, bool is_detached);
  /// One call in the place of several; this keeps it, and copies back what it brings.
  Collective& pack(std::span<const Collective> calls, const Group& group);
  /// Before the launch. Takes the first handle of what was prepared.
  void add(Operation& operation);
  /// After the last add(): from here on this completes once all operations have.
  void follow();
  bool is_empty() const noexcept { return operations_.empty(); }
  /// Instead of a launch, while it is empty.
  void give_up() { finish(); }

  std::uint64_t group_id() const noexcept { return group_; }

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
  std::vector<Work> works_;  // of these
  std::atomic<std::size_t> open_{0};
  std::atomic<bool> finished_{false};
  std::size_t seen_done_ = 0;  // operations before this one; token
};

}  // namespace tutti
