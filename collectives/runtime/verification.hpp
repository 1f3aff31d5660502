// Verification: with TUTTI_VERIFY=full, the ranks compare the arguments of each call before any rank reads or writes a
// buffer.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "collectives/plan/execution.hpp"

namespace tutti {

/// An allgather of one call's signatures over the context's transport. For the holder of the progress token.
class Verification final : private ExecutionOwner {
 public:
  struct Outcome {
    /// called when a message of the allgather fails, and when the calls differ; must fail the communicator
    std::function<void(const Status&)> trouble;
    std::function<void(const Status&)> ended;  ///< called once; Ok: all ranks make the same call
  };
  Verification(Transport& wire, const Group& group, std::uint32_t sequence, Signature call, Outcome outcome);
  void begin();

 private:
  void trouble(const Status& why) override { outcome_.trouble(why); }
  void first_data() override {}
  void ended(Execution& execution, const Status& status) override;
  Status compared() const;

  const Group& group_;
  const std::uint32_t sequence_;
  const Signature call_;
  const Outcome outcome_;
  std::vector<std::int64_t> signatures_;
  Schedule plan_;
  Execution execution_;
};

}  // namespace tutti
