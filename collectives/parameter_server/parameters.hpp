// What is behind a worker's handle of a buffer.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/parameter_server/letters.hpp"
#include "collectives/parameter_server/request.hpp"

namespace tutti {

struct Parameters::State {
  struct Call {
    frames::Verb verb = frames::Verb::push;
    std::string what = {};
    std::uint64_t rule = 0;
    Range range = {};
    const ConstBuffer* data = nullptr;
    const Buffer* into = nullptr;
    PushMeta meta = {};
  };
  void check(std::string_view what, const Range& range, const ConstBuffer* data, const Buffer* into) const;
  Request exchange(const Call& call);

  std::shared_ptr<Outbox> outbox;
  Opening opening;
  std::uint64_t id = 0;
  std::shared_ptr<SeenVersions> seen;
};

/// The same to every server, whether it has a part or not; returns once all have replied, with the text of the first
/// one's reply. Throws what a server answered.
std::vector<std::byte> tell_all(const std::shared_ptr<Outbox>& outbox, frames::Verb verb, const std::string& what,
                                std::uint64_t instance, ConstBytes letter);

}  // namespace tutti
