// PlannedBackend: the built-in algorithms, run over the context's transport. It works with every host transport.
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <vector>

#include "collectives/plan/algorithm.hpp"
#include "collectives/plan/planned_call.hpp"
#include "tutti/provider/backend.hpp"
#include "tutti/provider/transport.hpp"
#include "tutti/settings.hpp"

namespace tutti {

/// An LRU cache of schedules, since planning costs more than a small collective. Any thread.
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

/// The backend of the built-in algorithms. Its calls advance with the transport, so the context does not drive it
/// separately.
class PlannedBackend final : public Backend, private PlannedCall::Owner {
 public:
  static constexpr std::string_view own_name = "planned";

  PlannedBackend(Transport& wire, const Group& group, const Settings& settings);
  ~PlannedBackend() override;

  std::string_view name() const noexcept override { return own_name; }
  Status supports(const Collective& call, std::string_view algorithm) const override;
  void start(Call& call) override;
  void cancel(const Status& why) noexcept override;

  /// The algorithm called `wanted` if it supports this call; if `wanted` is empty, the first one in the catalog that
  /// does.
  const Algorithm* algorithm(const Collective& call, std::string_view wanted) const;

  bool progress() override { return shared_.wire.progress(); }
  Fds fds() const noexcept override { return {}; }
  bool arm(bool) override { return true; }

 private:
  void ended(PlannedCall& call, const Status& status) override;
  const Algorithm* named(Kind kind, std::string_view wanted);

  const Group group_;
  PlanCache plans_;
  const Algorithm* last_named_ = nullptr;  // most calls name the algorithm of the one before
  const PlannedCalls shared_;
  std::vector<std::unique_ptr<PlannedCall>> calls_;  // running
  std::vector<std::unique_ptr<PlannedCall>> spare_;  // for reuse
};

}  // namespace tutti
