// Survival: the end of a scenario. The ranks that are left shrink the world, let newcomers in, and use what they get.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "tests/chaos/gate.hpp"
#include "tests/chaos/report.hpp"
#include "tutti/communicator.hpp"
#include "tutti/settings.hpp"
#include "tutti/store.hpp"

namespace tutti::testing {

/// The part of one process; see Scenario::shrinks. A process may die at any time, so each step may fail on some
/// processes only. All repeat them until they agree that they have the same working communicator, in which is who is to
/// be there; report.members tells who that is.
class Survival {
 public:
  Survival(const Scenario& scenario, int process, Gate& gate, Report& report)
      : scenario_(scenario), process_(process), gate_(gate), report_(report) {}

  /// For a rank of the beginning. `world` may have failed.
  void go_on(Communicator world);
  /// For a newcomer, which waits until it is admitted. Its settings have the store of the job.
  void join();

 private:
  void repeat(std::optional<Communicator> group, bool is_new);
  Communicator grown(Communicator& group);
  bool use(Communicator& group);
  int missing() const;
  bool may_happen(const Error& error) const;

  const Scenario& scenario_;
  int process_;
  Gate& gate_;
  Report& report_;
  std::uint64_t members_ = 0;  // the processes of the communicator that was used last, a bit each
};

/// For Bootstrap::commons of a rank of the beginning: where the newcomers wait, by the settings `store` and `job`.
std::shared_ptr<Store> commons_of(const Settings& settings);

}  // namespace tutti::testing
