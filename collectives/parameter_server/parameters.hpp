// The worker's side of a parameter server's buffers and dumps.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/parameter_server/request.hpp"
#include "collectives/parameter_server/serialization.hpp"

namespace tutti {

struct Parameters::State {
  struct Call {
    protocol::Verb verb = protocol::Verb::push;
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

/// A request that goes to every server.
struct Question {
  protocol::Verb verb = protocol::Verb::join;
  std::string what = {};
  std::uint64_t instance = 0;
  std::vector<ConstBytes> payloads = {};  ///< one per server, one for all, or none
  std::vector<Bytes> into = {};           ///< buffers for the values in the replies: one per server, or none
};
/// Waits for all replies and returns their texts, by server. Throws Error if a server refuses or cannot be reached.
std::vector<std::vector<std::byte>> ask_all(const std::shared_ptr<Outbox>& outbox, const Question& question);

/// See ParameterServer::dump() and ParameterServer::load().
std::vector<std::byte> dump_of(const std::shared_ptr<Outbox>& outbox);
void load_into(const std::shared_ptr<Outbox>& outbox, ConstBytes dump);

}  // namespace tutti
