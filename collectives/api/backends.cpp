#include "collectives/api/backends.hpp"

#include <limits>
#include <vector>

#include "tutti/provider/provider.hpp"
#include "tutti/store.hpp"

namespace tutti {
namespace {

constexpr int nobody = std::numeric_limits<int>::max();

// Each rank passes its reason or an empty string. Returns on all ranks the reason of the lowest rank that has one, or
// an empty string. Collective; blocks.
std::string agreed_reason(Communicator& communicator, const std::string& mine, std::optional<double> patience) {
  const CallOptions planned{.timeout = patience, .algorithm = "planned"};
  const int first = communicator.allreduce(mine.empty() ? nobody : communicator.rank(), min, planned).wait();
  if (first == nobody) return {};
  std::uint64_t length = communicator.broadcast(static_cast<std::int64_t>(mine.size()), first, planned).wait();
  std::vector<std::uint8_t> text(mine.begin(), mine.end());
  text.resize(length);
  communicator.broadcast(text, first, planned).wait();
  return "on rank " + std::to_string(communicator.world_rank(first)) + ": " + std::string(text.begin(), text.end());
}

}  // namespace

MadeBackend make_backend(const BackendAttempt& attempt, Communicator& communicator, Context& context,
                         const Group& group) {
  const std::string& name = attempt.name;
  if (!context.settings().net.empty())
    return {nullptr, "with the setting net, which does not shape its messages; leave one of the two out"};
  const Found found = find_provider(name, context.settings());
  std::string mine = found.reason;
  if (mine.empty() && found.provider->make_backend == nullptr)
    mine = found.provider->algorithms == nullptr
               ? name + " has no collectives of its own"
               : "its collectives come with the transport " + name + ", which does not join these ranks";
  if (std::string reason = agreed_reason(communicator, mine, attempt.patience); !reason.empty())
    return {nullptr, std::move(reason)};

  MadeBackend made;
  try {
    std::shared_ptr<Store> store;
    if (context.store())
      store = make_prefix_store(
          context.store(), "backend/" + name + "/" + std::to_string(group.id) + "/" + std::to_string(attempt.number));
    BackendMeeting meeting;
    meeting.group = &group;
    meeting.world_size = context.size();
    meeting.store = store;
    meeting.settings = &context.settings();
    meeting.until = deadline_in(Seconds(context.settings().connect_timeout));
    meeting.native = context.native();
    meeting.local_rank = context.topology().hosts().index_of(context.rank());
    meeting.wire = &context.wire();
    made.backend = found.provider->make_backend(meeting);
  } catch (const std::exception& error) {
    mine = error.what();
  }
  made.reason = agreed_reason(communicator, mine, attempt.patience);
  if (!made.reason.empty()) made.backend.reset();
  return made;
}

}  // namespace tutti
