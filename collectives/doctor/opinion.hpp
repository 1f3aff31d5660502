// Opinion: what the doctor says of a job when one of its ranks asks.
#pragma once

#include <string>

#include "collectives/doctor/diagnosis.hpp"
#include "collectives/doctor/patients.hpp"

namespace tutti::doctor {

/// Now, by the real-time clock.
Time real_now() noexcept;

/// The ranks of `job` on this host. `file` is the recorder's memory of the rank that asks: if `tutti run` made it for
/// all ranks of the host, no other process is searched for.
std::vector<Patient> patients_of(const std::string& job, int file, Look how);

/// "job NAME: " and the diagnosis, for each job that `which` names as for find_jobs(); empty if there is none.
std::string opinions(const std::string& which, Time patience);

/// The end of an error's text: the diagnosis, shortened where it is long, if it says more than that there is an error;
/// otherwise empty. `recorder` is the setting of that name. Never throws.
std::string last_sentence(const std::string& job, int file, const std::string& recorder, Time patience) noexcept;

/// How the rank in a place of a recorder's file ended, whose process is gone: see end_text(). Empty if it had made no
/// call, or had ended the library. Never throws.
std::string last_words(int file, std::size_t slot) noexcept;

}  // namespace tutti::doctor
