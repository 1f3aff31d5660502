// PlannedBackend: our own algorithms, played over the context's transport. A Backend for every host transport there is.
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <vector>

#include "collectives/plan/algorithm.hpp"
#include "collectives/plan/planned_call.hpp"
#include "transports/backend.hpp"
#include "transports/core/settings.hpp"
#include "transports/transport.hpp"

namespace tutti {

/// The schedules made lately, because making one costs more than a small collective. Any thread.
class PlanCache {
 public:
  std::shared_ptr<const Schedule> plan(const Algorithm& algorithm, const Shape& shape);

 private:
  struct Entry {
    const Algorithm* algorithm;
    std::size_t count;
    int root;
    std::shared_ptr<const Schedule> schedule;
  };
  static constexpr std::size_t capacity = 64;
  std::mutex mutex_;
  std::list<Entry> entries_;  // most recently used first
};

/// The transport moves its calls: a look at one is a look at the other, and a context need not drive both.
class PlannedBackend final : public Backend, private PlannedCall::Owner {
 public:
  static constexpr std::string_view own_name = "planned";

  PlannedBackend(Transport& wire, const Group& group, const Settings& settings);
  ~PlannedBackend() override;

  std::string_view name() const noexcept override { return own_name; }
  Status supports(const Collective& call, std::string_view algorithm) const override;
  const void* token(Kind kind, std::string_view algorithm) const override;
  void start(Call& call) override;
  void cancel(const Status& why) noexcept override;
  std::string where(std::uint32_t sequence) const override;

  /// The algorithm of that name where it can play this call; of no name: the first of the catalog that can.
  const Algorithm* algorithm(const Collective& call, std::string_view wanted) const;

  bool progress() override { return shared_.wire.progress(); }
  Fds fds() const noexcept override { return {}; }
  bool arm(bool) override { return true; }

 private:
  void ended(PlannedCall& call, const Status& status) override;

  const Group group_;
  PlanCache plans_;
  const PlannedCalls shared_;
  std::vector<std::unique_ptr<PlannedCall>> calls_;  // under way
  std::vector<std::unique_ptr<PlannedCall>> spare_;  // for the next ones
};

}  // namespace tutti
