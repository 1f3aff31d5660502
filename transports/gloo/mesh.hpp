// Mesh: Gloo's connections among the ranks of one communicator.
#pragma once

#include <gloo/context.h>

#include <memory>

#include "transports/gloo/guard.hpp"
#include "tutti/provider/provider.hpp"

namespace tutti {

/// Constructed by all members; connected after construction. One thread.
class Mesh {
 public:
  /// Throws Error or Gloo's exceptions; gives up at meeting.until, or when `guard` is closed.
  Mesh(const BackendMeeting& meeting, const std::shared_ptr<Guard>& guard);

  /// The context for one collective. Different salts keep the messages of different calls apart.
  const std::shared_ptr<gloo::Context>& context(std::uint64_t salt);

 private:
  class Connected;
  const std::shared_ptr<Guard> guard_;
  std::shared_ptr<Connected> connected_;
  std::shared_ptr<gloo::Context> context_;
};

}  // namespace tutti
