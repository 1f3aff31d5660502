// Mesh: Gloo's connections among the ranks of one communicator.
#pragma once

#include <gloo/context.h>

#include <memory>

#include "transports/gloo/guard.hpp"
#include "transports/provider.hpp"

namespace tutti {

/// Made by all members; connected from construction on. Used by one thread.
class Mesh {
 public:
  /// Throws Error, or what Gloo throws; ends at meeting.until, or when `guard` is closed.
  Mesh(const BackendMeeting& meeting, const std::shared_ptr<Guard>& guard);

  /// What Gloo's collectives want. The next one has its messages to itself if its `salt` differs from those before.
  const std::shared_ptr<gloo::Context>& context(std::uint64_t salt);

 private:
  class Connected;
  const std::shared_ptr<Guard> guard_;
  std::shared_ptr<Connected> connected_;
  std::shared_ptr<gloo::Context> context_;
};

}  // namespace tutti
