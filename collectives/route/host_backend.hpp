// HostBackend: collectives on host memory, chosen by the rules, which the staging of device memory uses.
#pragma once

#include <memory>

#include "collectives/route/choices.hpp"
#include "tutti/provider/transport.hpp"
#include "tutti/settings.hpp"

namespace tutti {

/// The built-in plans and the transport's own backend for the ranks of one communicator. They use a group id of their
/// own, so their messages do not match those of the communicator's calls.
class HostBackend final : public Backend {
 public:
  HostBackend(Transport& wire, Group group, const Settings& settings, std::shared_ptr<const Selector> selector);

  std::string_view name() const noexcept override { return "host"; }
  Status supports(const Collective& call, std::string_view algorithm) const override;
  void start(Call& call) override;
  void cancel(const Status& why) noexcept override;
  bool progress() override;
  Fds fds() const noexcept override { return {}; }  // the transport's descriptor wakes a thread for all engines
  bool arm(bool on) override;
  bool polled() const noexcept override;

 private:
  const Group group_;
  Choices choices_;
  Backends backends_;
};

}  // namespace tutti
