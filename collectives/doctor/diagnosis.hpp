// Diagnosis: what holds up a job, and who is to blame, in plain sentences.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/doctor/job.hpp"

namespace tutti::doctor {

struct Finding {
  enum class Kind : std::uint8_t {
    lost,         ///< a process is gone
    failed,       ///< a communicator has failed with a cause that no other finding explains
    mismatch,     ///< ranks have made different calls
    stopped,      ///< others wait for a stopped process
    silent,       ///< others wait for ranks on a host that does not answer
    late,         ///< others wait for a rank that has not made their call, and that does not wait itself
    unmatched,    ///< others wait for a send or receive of a rank that does not wait itself
    deadlock,     ///< ranks wait for one another in a circle
    no_progress,  ///< all ranks have made the call, but it does not end
    connecting,   ///< ranks have not met yet
    slow,         ///< nothing is stuck, but some rank comes late again and again
    outside,      ///< no rank is in a call, and none has been for long
    healthy,
  };
  Kind kind = Kind::healthy;
  std::vector<int> culprits = {};  ///< world ranks, ascending
  std::string text = {};           ///< sentences: what happened, who is to blame, what to do next
};
std::string_view name(Finding::Kind kind) noexcept;

struct Diagnosis {
  Finding finding;      ///< the likeliest cause
  std::string context;  ///< what else there is to know, such as ranks that nothing is known of; may be empty
  /// Both in one paragraph.
  std::string paragraph() const;
};

/// The time after which a running call counts as waiting, unless the caller knows better.
inline constexpr Time usual_patience = 1'000'000'000;

/// `hosts` are those whose agents were asked; empty if none was.
Diagnosis diagnose(const std::vector<Patient>& patients, Time now, Time patience = usual_patience,
                   const std::vector<AskedHost>& hosts = {});

}  // namespace tutti::doctor
