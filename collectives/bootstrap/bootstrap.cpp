// Derives a rank's number, the size and a store from the launcher's environment.
#include "tutti/bootstrap.hpp"

#include <atomic>

#include "collectives/bootstrap/admission.hpp"
#include "collectives/bootstrap/meeting.hpp"
#include "collectives/bootstrap/membership.hpp"
#include "collectives/bootstrap/served_store.hpp"
#include "transports/core/open_files.hpp"
#include "transports/core/recorder.hpp"
#include "tutti/log.hpp"
#include "tutti/store.hpp"
#include "tutti/turns.hpp"

namespace tutti {
namespace launchers {
namespace {

void report(const Choice& choice, const Meeting& meeting) {
  const Membership& m = choice.membership;
  for (const std::string& warning : choice.warnings) log(LogLevel::warn, warning, m.rank);
  if (log_level() >= LogLevel::info) {
    log(LogLevel::info,
        m.launcher == Launcher::alone ? std::string("no launcher's variables are set: alone, size 1")
                                      : "rank " + std::to_string(m.rank) + " of " + std::to_string(m.size) + " by " +
                                            m.name + " (" + m.evidence + "), meeting at " + meeting.place,
        m.rank);
    for (const std::string& note : choice.notes) log(LogLevel::info, note, m.rank);
  }
  static std::atomic<bool> said = false;
  if (!meeting.guarded && m.rank == 0 && !said.exchange(true))
    log(LogLevel::warn,
        m.name + " gives no secret: who can reach " + meeting.place +
            " and knows the job's name can join. Set TUTTI_SECRET to the same text on all ranks",
        0);
}

}  // namespace

Bootstrap bootstrap_from(const Settings& settings, const Environment& environment) {
  const Deadline until = deadline_in(Seconds(settings.connect_timeout));
  if (const auto level = parse_log_level(settings.log)) set_log_level(*level);
  if (environment("TUTTI_JOIN").value_or("") != "") return wait_to_be_called(settings, environment);
  const Choice choice = choose_membership(environment, !settings.store.empty());
  const Membership& m = choice.membership;
  const std::shared_ptr<Recorder> recorder =
      Recorder::make(settings.recorder, {m.rank, m.size, m.local_rank, settings.job});
  if (recorder) recorder->set_stage(Stage::connecting, "looks for the store where the ranks meet");
  if (m.rank == 0) warn_of_unknown(settings);
  raise_limit_of_open_files();  // rank 0 may serve the store to all ranks
  const Meeting meeting = meet(m, settings, environment, until);
  report(choice, meeting);

  Bootstrap result;
  result.rank = m.rank;
  result.size = m.size;
  result.local_rank = m.local_rank;
  result.local_size = m.local_size;
  result.launcher = m.name;
  result.settings = settings;
  const Seat seat{m.rank, m.size, settings.job, m.name + ": " + m.evidence, settings.connect_timeout};
  if (recorder) recorder->set_stage(Stage::connecting, "waits at " + meeting.place + " for the other ranks");
  result.recorder = recorder;
  if (meeting.store) result.commons = make_commons(meeting.store, settings.job);
  result.store = m.size == 1 ? meeting.store : join_turn(meeting.store, seat, until);
  if (settings.secret.empty())
    result.settings.secret = made_by_rank_0(*result.store, m.rank, "secret", random_secret, until);
  if (result.settings.job.empty()) result.settings.job = meeting.job.empty() ? meeting.place : meeting.job;
  return result;
}

}  // namespace launchers

Bootstrap bootstrap_from_environment(const Settings& settings) {
  return launchers::bootstrap_from(settings, launchers::process_environment());
}

}  // namespace tutti
