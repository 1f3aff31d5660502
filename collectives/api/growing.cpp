// Growth: processes that wait at the store join the ranks of a communicator, in a world of a new epoch.
//
// Rank 0 calls the processes and sends the number of those that come to the other ranks. Then all connect to one
// another as at the start of a job, under a part of the store of their own. The present ranks agree, over their old
// communicator, whether all of them are connected, and tell the newcomers.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "collectives/api/communicator_impl.hpp"
#include "collectives/bootstrap/admission.hpp"
#include "transports/core/checked.hpp"
#include "transports/core/host.hpp"
#include "tutti/communicator.hpp"
#include "tutti/log.hpp"

namespace tutti {
namespace {

constexpr int most_attempts = 10;          // of a newcomer whose epochs do not begin
constexpr Seconds longest_connecting(20);  // for an epoch: the ranks are all there

// The other ranks learn from an epoch without newcomers that nobody comes, and from a number below 0 that rank 0 has
// failed, whose error says why.
launchers::Calling call_as_rank_0(const Context& context, const Communicator& from, int most, Deadline until,
                                  std::optional<Error>& failure) {
  try {
    const bool one_host = from.topology().hosts().count() == 1;
    context.commons()->hurry(Seconds(context.settings().connect_timeout));
    return launchers::call_in(
        context.commons(),
        {context.settings().job, from.size(), one_host ? host_identity(context.settings().host_id) : ""}, most, until);
  } catch (const Error& error) {
    failure = error;
    return {.newcomers = -1};
  }
}

Bootstrap bootstrap_of_epoch(const Context& context, const Communicator& from, const launchers::Calling& calling) {
  Bootstrap next;
  next.rank = from.rank();
  next.size = from.size() + calling.newcomers;
  next.local_rank = calling.one_host != 0 ? next.rank : 0;
  next.local_size = calling.one_host != 0 ? next.size : 1;
  next.settings = context.settings();
  next.settings.connect_timeout = std::min(next.settings.connect_timeout, longest_connecting.count());
  next.launcher = context.launcher();
  next.commons = context.commons();
  next.epoch = calling.epoch;
  next.commons->hurry(Seconds(next.settings.connect_timeout));
  next.store = launchers::enter_epoch(next.commons, next.epoch, next.rank);
  return next;
}

}  // namespace

int Communicator::waiting() const {
  const auto& commons = impl_->context().commons();
  return commons ? launchers::count_waiting(*commons) : 0;
}

std::uint64_t Communicator::epoch() const { return impl_->context().epoch(); }

Communicator Communicator::from_env(const Settings& settings) {
  for (int attempt = 1;; ++attempt) {
    const Bootstrap bootstrap = bootstrap_from_environment(settings);
    if (bootstrap.epoch == 0) return connect(bootstrap);
    try {
      Communicator made = connect(bootstrap);
      if (launchers::is_admitted(bootstrap)) return made;
      log(LogLevel::info, "the ranks went on without this process, which waits for their next call");
    } catch (const Error& error) {
      if (attempt >= most_attempts) throw;
      log(LogLevel::info, "joining has failed, and is tried again: " + std::string(error.what()));
    }
  }
}

Communicator Communicator::grow(int most, double patience) {
  const Context& context = impl_->context();
  if (most < 0) throw Error(Code::invalid, "grow: " + std::to_string(most) + " processes; give 0 or more");
  const Seconds allowed = checked_seconds(Seconds(patience), "grow: the patience");
  if (!context.commons())
    throw Error(Code::unsupported,
                "grow: this job has no store in which processes could wait; start it with `tutti run`, or set "
                "TUTTI_STORE");
  launchers::Calling calling;
  std::optional<Error> failure;
  if (rank() == 0 && most > 0) calling = call_as_rank_0(context, *this, most, deadline_in(allowed), failure);
  CallOptions options;
  options.timeout = context.settings().timeout + allowed.count();
  broadcast(Buffer(&calling, sizeof calling, DType::u8), 0, options).wait();
  if (failure)
    throw Error(Code::resource, "grow: the processes that wait cannot be called: " + std::string(failure->what()));
  if (calling.newcomers < 0)
    throw Error(Code::resource, "grow: rank 0 could not call the processes that wait; its error says why",
                world_rank(0));
  if (calling.newcomers == 0) return *this;

  std::optional<Communicator> made;
  std::string why = "another rank could not connect";
  try {
    const Bootstrap next = bootstrap_of_epoch(context, *this, calling);
    barrier().wait();  // from here on all ranks of the epoch learn at once if one of them ends
    made = connect(next);
  } catch (const Error& error) {
    why = error.what();
  }
  std::uint64_t id = 0;
  const auto agreed = impl_->agree(Impl::Purpose::grow, made ? 1 : 0, id);
  const bool all = agreed && agreed->bits != 0 && static_cast<int>(agreed->members.size()) == size();
  if (!agreed || agreed->members.front() == rank()) {
    context.commons()->hurry(longest_connecting);
    launchers::tell_verdict(*context.commons(), calling.epoch, all);
  }
  if (all) return std::move(*made);
  made.reset();
  impl_->throw_if_failed();
  if (!agreed) throw Error(Code::mismatch, "grow: other ranks called shrink() or agree(); all must make the same call");
  log(LogLevel::warn, "the processes that came do not join, and the ranks go on without them: " + why, context.rank());
  return *this;
}

}  // namespace tutti
