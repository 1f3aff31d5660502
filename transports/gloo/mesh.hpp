// Mesh: Gloo's connections among the ranks of one communicator.
#pragma once

#include <gloo/context.h>

#include <memory>

#include "transports/gloo/guard.hpp"
#include "tutti/provider/provider.hpp"

namespace tutti {

/// All members construct it together. Used by one thread.
class Mesh {
 public:
  /// Connects all members. Collective; blocks until meeting.until at most, or until `guard` is closed. Throws Error.
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
