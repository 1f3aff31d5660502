// CollectiveOperation: one collective of one communicator, in the hands of one of its backends.
#pragma once

#include <memory>
#include <string>

#include "collectives/operation.hpp"
#include "collectives/selector.hpp"
#include "collectives/verification.hpp"
#include "transports/backend.hpp"

namespace tutti {

/// Keeps the call while the backend works on it, and ends the communicator when it fails.
class CollectiveOperation final : public Operation, private CallListener {
 public:
  struct Parts {
    Collective call;
    Launch launch;
    Deadline until;
    std::shared_ptr<Backend> backend;
    std::shared_ptr<const Selector> selector;  ///< whose rule the algorithm's name is read from
    std::string insisted;                      ///< or this, where the call named the algorithm
  };
  CollectiveOperation(std::shared_ptr<Context> context, std::shared_ptr<GroupState> group, Parts parts);

  std::string where() const override;
  void cancel(const Status& why) noexcept override;

 private:
  void begin() override;
  void trouble(const Status& why) override;
  void ended(const Status& status) override;
  void verified(const Status& status);

  Parts parts_;
  std::unique_ptr<Verification> verification_;  // TUTTI_VERIFY=full
};

}  // namespace tutti
