// PlannedBackend: our own algorithms, played over a transport. A Backend for every host transport there is.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <vector>

#include "collectives/algorithm.hpp"
#include "collectives/operation.hpp"
#include "transports/backend.hpp"

namespace tutti {

class Context;

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

class PlannedBackend final : public Backend {
 public:
  PlannedBackend(std::shared_ptr<Context> context, std::shared_ptr<GroupState> group);

  std::string_view name() const noexcept override { return "planned"; }
  Status supports(const Collective& call) const override;

  /// `launch.choice` names the algorithm (never empty here). Also Kind::send: see point_to_point.hpp.
  Work launch(Collective call, const Launch& launch) override;
  std::unique_ptr<Backend> split(const Group& group) override;
  void abort(const Status& why) noexcept override;

 private:
  std::shared_ptr<Context> context_;
  std::shared_ptr<GroupState> group_;
  std::shared_ptr<PlanCache> plans_ = std::make_shared<PlanCache>();  // operations outlive the backend
};

}  // namespace tutti
