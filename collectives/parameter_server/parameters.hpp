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

/// What every server is asked, whether it has a part of a buffer or not.
struct Question {
  frames::Verb verb = frames::Verb::join;
  std::string what = {};
  std::uint64_t instance = 0;
  std::vector<ConstBytes> letters = {};  ///< for each server; or one for all; or none
  std::vector<Bytes> into = {};          ///< for each server, or none: where values go
};
/// Returns once all have replied: what their replies had as text, by server. Throws what a server answered.
std::vector<std::vector<std::byte>> ask_all(const std::shared_ptr<Outbox>& outbox, const Question& question);

/// See ParameterServer.
std::vector<std::byte> dump_of(const std::shared_ptr<Outbox>& outbox);
void load_into(const std::shared_ptr<Outbox>& outbox, ConstBytes dump);

}  // namespace tutti
