// PlayedCall: one rank's part of a collective: its buffers, the call, and the check of the result.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tests/chaos/values.hpp"
#include "tutti/communicator.hpp"

namespace tutti::testing {

/// Memory of a call: its own, or shared memory from Communicator::allocate().
class CallMemory {
 public:
  CallMemory(Communicator& group, std::size_t bytes, bool shared);
  std::byte* data() noexcept { return shared_ ? reinterpret_cast<std::byte*>(shared_->data()) : own_.data(); }
  std::size_t size() const noexcept { return size_; }

 private:
  std::size_t size_;
  std::vector<std::byte> own_;
  std::optional<Allocation<std::uint8_t>> shared_;
};

class PlayedCall {
 public:
  /// Prepares the buffers, whose values are those of the group's rank `group.rank()`.
  PlayedCall(Communicator& group, const CallPlan& plan);
  PlayedCall(const PlayedCall&) = delete;
  PlayedCall& operator=(const PlayedCall&) = delete;

  const Collective& collective() const noexcept { return call_; }
  /// Returns "" or what is wrong with the result of a call that has succeeded.
  std::string check();

 private:
  std::size_t counted(int rank) const;
  std::size_t pair(int from, int to) const;
  std::size_t before(int rank) const;
  std::size_t input_count(int rank) const;
  std::size_t output_count() const;
  void set_counts();
  void place_in_one_buffer();
  double expected(std::size_t i) const;
  double exchanged(std::size_t i) const;

  const CallPlan& plan_;
  int me_, size_;
  CallMemory in_, out_;
  bool in_place_ = false;
  Collective call_;
};

}  // namespace tutti::testing
