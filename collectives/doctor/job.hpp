// Job: the recordings of a job's ranks side by side, with the answers that a diagnosis asks for.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "collectives/doctor/recording.hpp"

namespace tutti::doctor {

/// A rank as it is found: its recording, and what its process does.
struct Patient {
  enum class Life : std::uint8_t { unknown, lives, stopped, gone };
  Recording recording;
  Life life = Life::unknown;
  std::string source = {};   ///< path of the recorder's memory
  std::string process = {};  ///< what the process does: "sleeps in nanosleep, called from main+0x41"; empty: unknown
};

/// A host of a job, as the launcher describes it after its agent was asked for its ranks.
struct AskedHost {
  std::string name;
  std::vector<int> ranks = {};  ///< world ranks, ascending
  bool answers = true;
  bool here = false;     ///< it is the launcher's own host
  Time silent_for = 0;   ///< how long nothing has been heard of it, if that is known
  std::string why = {};  ///< why it is lost; empty: it is not, as far as the launcher knows
  Time ahead = 0;        ///< by how much its clock is ahead of the launcher's
  Time error = 0;        ///< how wrong `ahead` may be
};

/// All that is known of one job. Ranks are world ranks. The patients and the hosts must outlive the object.
class Job {
 public:
  /// `patience` is the time after which a call counts as waiting. `hosts` is empty if nobody was asked for them.
  Job(const std::vector<Patient>& patients, Time now, Time patience,
      const std::vector<AskedHost>& hosts = none_asked());

  int size() const noexcept { return size_; }
  Time now() const noexcept { return now_; }
  Time patience() const noexcept { return patience_; }
  const std::map<int, const Patient*>& patients() const noexcept { return patients_; }
  /// Null if there is no recording of the rank.
  const Patient* patient(int rank) const noexcept;
  /// The hosts that do not answer.
  const std::vector<const AskedHost*>& silent_hosts() const noexcept { return silent_hosts_; }
  /// The rank's host, if hosts were asked and it has the rank; otherwise null.
  const AskedHost* asked_host(int rank) const noexcept;
  /// The host of the rank if it does not answer; otherwise null.
  const AskedHost* silent_host(int rank) const noexcept;
  /// The ranks without a recording.
  std::vector<int> unknown() const;

  /// The members of a communicator by their number in it. -1: a member that no recording names.
  std::vector<int> members(std::uint64_t group) const;
  std::string name(std::uint64_t group) const;
  /// The collective with this number that `rank` has made in the communicator; null if it has not, or if the record is
  /// gone.
  const RecordedCall* call(int rank, std::uint64_t group, std::uint32_t sequence) const noexcept;
  /// The number of the latest collective that `rank` has made in the communicator; 0: none is recorded.
  std::uint32_t latest(int rank, std::uint64_t group) const noexcept;
  /// True if `rank` has made the collective with this number. Numbers go around.
  bool has_made(int rank, std::uint64_t group, std::uint32_t sequence) const noexcept;

  bool runs_long(const RecordedCall& call) const noexcept {
    return call.state == RecordedCall::State::running && call.launched != 0 && now_ - call.launched >= patience_;
  }
  /// The call that a thread of `rank` waits for; null if none does, or if it is not a call.
  const RecordedCall* waits_in(int rank) const noexcept;
  /// The last collective, send or receive of `rank`; null if there is none.
  const RecordedCall* last_call(int rank) const noexcept;

 private:
  using Key = std::pair<std::uint64_t, std::uint32_t>;  // communicator, number
  struct Calls {
    std::map<Key, const RecordedCall*> collectives;
    std::map<std::uint64_t, std::uint32_t> latest;
  };
  static const std::vector<AskedHost>& none_asked() noexcept;
  void index(const Patient& patient);

  const Time now_, patience_;
  int size_ = 1;
  std::map<int, const Patient*> patients_;
  std::map<int, Calls> calls_;
  const std::vector<AskedHost>& hosts_;
  std::vector<const AskedHost*> silent_hosts_;
};

}  // namespace tutti::doctor
