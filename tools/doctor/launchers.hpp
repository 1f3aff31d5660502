// The launchers on this host of jobs on several hosts: what they know of the ranks elsewhere.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "collectives/doctor/patients.hpp"
#include "tools/run/channel.hpp"

namespace tutti::tools {

/// What a launcher has answered.
struct Account {
  std::string job;  ///< empty: the launcher has not even told it
  pid_t launcher = -1;
  std::vector<doctor::AskedHost> hosts = {};   ///< empty: the launcher has not answered in time
  std::vector<doctor::Patient> patients = {};  ///< the ranks of all hosts that have answered
};

/// Asks the launchers of this user for which `wanted` returns true, all at once. Takes some seconds if a host of theirs
/// does not answer. A launcher that says nothing at all is among the results. A launcher of another version is not
/// asked, which is logged.
std::vector<Account> ask_launchers(const std::function<bool(const std::string& job, pid_t launcher)>& wanted);

/// Takes one frame of a launcher's answer. Returns true after the last one. A letter about a rank that cannot be read
/// is left out, which is logged. Throws Error{protocol} for another frame that makes no sense.
bool take_answer(const Frame& frame, Account& account);

/// The ranks of a job as the launcher knows them; `here` are those that were found on this host. A host that does not
/// answer, but is this one, has the ranks that were found here. The times of all are by the launcher's clock.
std::vector<doctor::Patient> joined(Account& account, std::vector<doctor::Patient> here);

}  // namespace tutti::tools
