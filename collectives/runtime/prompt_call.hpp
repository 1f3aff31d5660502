// PromptCall: a collective that completes inside start(). It needs no operation, only a sequence number.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "collectives/runtime/collective_operation.hpp"
#include "collectives/runtime/operation.hpp"
#include "collectives/runtime/progress.hpp"
#include "tutti/provider/backend.hpp"
#include "tutti/work.hpp"

namespace tutti {

/// The completed state shared by the Works of all calls of one communicator that completed inside start().
class EndedWork final : public WorkState {
 public:
  struct Close {
    void operator()(EndedWork* work) const noexcept { work->drop_all(std::exchange(work->counted_, 0)); }
  };
  using Owner = std::unique_ptr<EndedWork, Close>;  ///< Works may outlive the owner

  static Owner make(std::shared_ptr<Driver> driver) { return Owner(new EndedWork(std::move(driver))); }

  /// A new handle. Handles are counted in advance, many at a time, to save atomic operations. Token held.
  Work work() noexcept {
    constexpr std::uint32_t many = 1u << 20;
    if (counted_ == 0) add_handles(counted_ = many);
    --counted_;
    return Work(*this);
  }

 private:
  explicit EndedWork(std::shared_ptr<Driver> driver) {
    prepare(std::move(driver));
    complete({});
  }
  std::uint32_t counted_ = 1;  // handles counted but not given out yet
};

/// What the prompt calls of one communicator share. Token held.
struct PromptCalls {
  Pool<CollectiveOperation>& pool;
  GroupState& group;
  EndedWork::Owner ended;
  std::unique_ptr<CollectiveOperation> spare = {};  ///< allocated before a call starts, after which nothing may fail
};

/// One such call, for the duration of its launch. `HomeOf` is a function that returns the Home of an operation.
template <class HomeOf>
class PromptCall final : public Startable {
 public:
  PromptCall(PromptCalls& all, const CollectiveOperation::Parts& parts, HomeOf home_of)
      : all_(all), parts_(parts), home_of_(home_of) {}

  bool start() override {
    if (!all_.spare) all_.spare.reset(all_.pool.take());
    CollectiveOperation& operation = *all_.spare;
    if (all_.group.poisoned()) {
      operation.prepare(home_of_(), all_.pool, parts_);
      work_ = Work(*all_.spare.release());
      return operation.start();
    }
    const CollectiveOperation::Begun begun = operation.start_unprepared(all_.group, parts_);
    if (begun.is_over) {
      work_ = all_.ended->work();
      return false;
    }
    static_cast<void>(all_.spare.release());
    const bool moves = operation.carry_on(home_of_(), all_.pool, parts_, begun);
    work_ = Work(operation);
    return moves;
  }

  /// The call's Work, once, after start().
  Work work() noexcept { return std::move(work_); }

 private:
  PromptCalls& all_;
  const CollectiveOperation::Parts& parts_;
  HomeOf home_of_;
  Work work_;
};

}  // namespace tutti
