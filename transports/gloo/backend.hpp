// GlooBackend: Gloo's collectives as a Backend. They block, so they run one after the other on a thread of their own.
#pragma once

#include <cstdint>
#include <memory>

#include "transports/gloo/worker.hpp"
#include "tutti/provider/provider.hpp"

namespace tutti {

class GlooBackend final : public Backend {
 public:
  /// Connects all members with each other. Collective; blocks. Throws Error.
  explicit GlooBackend(const BackendMeeting& meeting);
  ~GlooBackend() override;

  std::string_view name() const noexcept override { return "gloo"; }
  Status supports(const Collective& call, std::string_view algorithm) const override;
  void start(Call& call) override;
  void cancel(const Status& why) noexcept override;

  bool progress() override;
  Fds fds() const noexcept override;
  bool arm(bool on) override;

 private:
  const std::uint32_t generation_;  // of tutti/fork.hpp, to detect a forked child
  std::unique_ptr<Worker> worker_;  // null if the group has one rank
};

}  // namespace tutti
