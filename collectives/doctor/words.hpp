// The doctor's words for times, calls and ranks.
#pragma once

#include <string>
#include <vector>

#include "collectives/doctor/job.hpp"

namespace tutti::doctor {

/// "450 ms", "12.3 s", "2 min 5 s".
std::string time_text(Time length);

/// "call 1841 of grads (allreduce(sum, f32, count 6553600), 25 MiB)", "a receive from rank 0 with tag 7 in world (f32,
/// count 4)". The label of the program, if there is one, comes first: "MPI_Allreduce, call 1841 of ...".
std::string call_text(const Job& job, const RecordedCall& call);

/// What `rank` has done last: "its last call was ..., which ended 12 s ago", "it is in ... since 3 s", or that it has
/// made none.
std::string last_text(const Job& job, int rank);

/// How `rank`, which is gone, ended: "it ended in call 17 of world (barrier)", "it ended outside of a call; its last
/// call was ...", "it had made no call".
std::string end_text(const Job& job, int rank);

/// "process 4711 on h2 sleeps in nanosleep, called from main+0x41"; without what it does if that is unknown.
std::string process_text(const Job& job, int rank);

/// What the process of `rank` does, and what the rank has done last.
std::string state_text(const Job& job, int rank);

/// "rank 2", "ranks 0-3, 7"; "no rank" for an empty list.
std::string ranks_of(std::vector<int> ranks);

/// `text` with its first letter in upper case.
std::string as_sentence(std::string text);

}  // namespace tutti::doctor
