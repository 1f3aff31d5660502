// Agreements: the agreements in which a rank takes part, of all its communicators.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "collectives/runtime/consensus.hpp"
#include "tutti/status.hpp"
#include "tutti/work.hpp"

namespace tutti {

class GroupState;

/// The handle of an agreement: done when its outcome is known, or when this rank is excluded. Dropping the last Work
/// before does not wait.
class PendingAgreement final : public WorkState {
 public:
  PendingAgreement(std::shared_ptr<Driver> driver, Consensus::Name name) : name_(name) {
    prepare(std::move(driver));
    detach_when_dropped();
  }
  Consensus::Name name() const noexcept { return name_; }
  const Consensus::Outcome& outcome() const noexcept { return outcome_; }  ///< after done(), if it succeeded
  void end(Consensus::Outcome outcome) {
    outcome_ = std::move(outcome);
    complete({});
  }
  using WorkState::complete;

 private:
  const Consensus::Name name_;
  Consensus::Outcome outcome_;
};

/// Token held, for all functions. An agreement is kept until the next one of its communicator has an outcome: other
/// ranks may still need to hear of it from this one.
class Agreements {
 public:
  explicit Agreements(int rank, Consensus::Send send) : rank_(rank), send_(std::move(send)) {}

  /// The agreement of a communicator that this rank takes part in next: the one that has not ended, or a new one.
  Consensus::Name next(std::uint64_t group) const;
  /// Begins an agreement with this rank's vote. If this rank has begun it before and it has not ended, `vote` is
  /// ignored, and the earlier one holds. `lost`: the ranks that this rank holds for lost.
  void begin(Ref<PendingAgreement> pending, const std::vector<int>& members, const std::vector<int>& lost,
             Consensus::Value vote);
  /// Handles a letter of rank `from`; false if it is none. A letter of an agreement that this rank has not begun is
  /// kept.
  bool receive(int from, ConstBytes letter);
  /// Notes that a rank is lost.
  void lose(int rank);
  /// Ends all agreements that this rank waits for.
  void fail(const Status& why);
  /// The ranks for which an agreement waits now.
  std::vector<int> awaited(Consensus::Name name) const;
  /// Sends these ranks a letter without content, so that the transport notices if they are gone.
  void probe_awaited(Consensus::Name name) const;

 private:
  struct One {
    std::unique_ptr<Consensus> consensus;  // null: not begun on this rank
    Ref<PendingAgreement> pending;         // null: nobody waits
    std::vector<std::pair<int, std::vector<std::byte>>> early;
  };
  void settle(One& one);
  void forget_before(Consensus::Name name);

  const int rank_;
  const Consensus::Send send_;
  std::map<Consensus::Name, One> all_;
  std::map<std::uint64_t, std::uint32_t> ended_;  // by communicator: the number of its last agreement that has ended
  std::size_t early_ = 0;                         // number of letters that are kept
};

}  // namespace tutti
