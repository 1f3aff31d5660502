// Recording: what a flight recorder holds, read and checked. The memory belongs to another process, which may be
// writing to it or may have been killed, so nothing in it is trusted.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "transports/core/record.hpp"
#include "tutti/collective.hpp"
#include "tutti/status.hpp"

namespace tutti::doctor {

/// Nanoseconds of the real-time clock.
using Time = std::int64_t;

/// One call or message.
struct RecordedCall {
  using What = Record::What;
  using State = Record::State;
  std::uint64_t number = 0;  ///< of the record, counted from 1 on each rank
  What what = What::collective;
  State state = State::running;
  Time launched = 0;  ///< 0: its start has just begun
  Time ended = 0;     ///< 0: it runs, or it ended within its start
  Time first = 0;     ///< when the first data of another rank arrived; 0: unknown, or none have
  std::uint64_t group = 0;
  Signature call;
  std::uint64_t bytes = 0;
  std::uint32_t sequence = 0;  ///< number of the call in its communicator; for exchanges and messages the tag
  int peer = -1;               ///< the world rank waited for or sent to; -1: none
  int from = -1;               ///< exchange: the world rank received from; -1: none; -2: any rank
  std::string label;           ///< what the program names the call; empty: nothing
  std::string how;             ///< backend and algorithm; empty: unknown
};

struct RecordedCommunicator {
  std::uint64_t id = 0;
  std::string name;
  int rank = 0, size = 1;     ///< this rank's number in it, and the number of its ranks
  int first = 0, stride = 0;  ///< world ranks of its members: first, first + stride, ...; stride 0: irregular
  Time made = 0;
};

/// One rank of a job.
struct Recording {
  int rank = 0, size = 1;
  std::int64_t pid = 0;
  std::uint64_t started = 0;  ///< process_start(pid) on its host
  std::string host, machine, job, program;
  Stage stage = Stage::connecting;
  Time staged_at = 0;           ///< since when it is in this stage
  std::string doing;            ///< while it connects: what it waits for
  std::uint32_t waiters = 0;    ///< threads that wait for a call
  std::uint64_t waits_for = 0;  ///< number of the call that a thread waits for; 0: none
  Time looked_at = 0;           ///< when the library last looked after its calls; 0: never
  std::uint64_t lost = 0;       ///< calls without a record
  std::optional<Cause> failure;
  std::vector<RecordedCommunicator> communicators;
  std::vector<RecordedCall> calls;  ///< in the order of their starts; the oldest are gone

  const RecordedCommunicator* communicator(std::uint64_t id) const noexcept;
  const RecordedCall* call(std::uint64_t number) const noexcept;
};

/// Reads the rank in one place of a recorder's file. Nothing if there is none, or if it is of another version.
std::optional<Recording> read_recording(int file, std::size_t slot);

/// Reads all ranks in the file of a recorder. Empty if it is none.
std::vector<Recording> read_recordings(int file);

}  // namespace tutti::doctor
