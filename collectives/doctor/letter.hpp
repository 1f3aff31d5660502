// Letters: what is known of a rank or a host, as bytes that travel from its host to the doctor. The other side may be
// broken or no agent at all, so whoever reads a letter checks all of it.
#pragma once

#include <string>
#include <string_view>

#include "collectives/doctor/job.hpp"

namespace tutti::doctor {

/// The largest letter; longer ones are refused unread.
inline constexpr std::size_t longest_letter = 512 << 10;

/// A patient with all its running calls and its newest `most_calls` calls.
std::string letter_of(const Patient& patient, std::size_t most_calls);
/// Throws Error{protocol} for bytes that are no letter of this version.
Patient read_patient(std::string_view letter);

std::string letter_of(const AskedHost& host);
/// Throws Error{protocol}.
AskedHost read_host(std::string_view letter);

}  // namespace tutti::doctor
