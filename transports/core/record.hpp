// Record and RecordedRank: the memory of a flight recorder. Other processes map it and read it while the rank runs, or
// after its death, so this is a format: it has a version, fixed sizes and no pointers.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace tutti {

/// One call or message. The rank writes it when the call starts and again when it ends. A record is never reused while
/// its call runs.
struct alignas(64) Record {
  enum class What : std::uint8_t { collective, exchange, sent, received, control };
  enum class State : std::uint8_t { running, done, failed };

  std::atomic<std::uint64_t> number;    ///< counts this rank's records from 1; 0: being written
  std::atomic<std::uint64_t> launched;  ///< ticks; 0: its start has just begun
  std::atomic<std::uint64_t> ended;     ///< ticks; 0: it runs, or it ended within its start
  std::atomic<std::uint64_t> group;     ///< id of the communicator
  std::atomic<std::uint64_t> call;      ///< Signature
  std::atomic<std::uint64_t> bytes;     ///< of this rank's larger buffer; exchange: the world rank received from
  std::atomic<std::uint32_t> sequence;  ///< number of the call in its communicator; exchange and messages: the tag
  std::atomic<std::int32_t> peer;    ///< a world rank that a long call waits for; otherwise the rank sent to; -1: none
  std::atomic<std::uint32_t> first;  ///< from the launch to the first data of another rank, in 256 ticks; 0: unknown
  std::atomic<std::uint16_t> label;  ///< text: what the caller names the call ("MPI_Allreduce"); 0: none
  std::atomic<std::uint8_t> how;     ///< text: backend and algorithm; 0: unknown
  std::atomic<std::uint8_t> kind;    ///< What in the low, State in the high four bits

  static constexpr std::uint64_t ticks_of_first = 256;
  static constexpr std::uint8_t kind_of(What what, State state) noexcept {
    return static_cast<std::uint8_t>(static_cast<unsigned>(what) | static_cast<unsigned>(state) << 4);
  }
};
static_assert(sizeof(Record) == 64);

/// A communicator of the rank.
struct alignas(64) RecordedGroup {
  std::atomic<std::uint64_t> id;    ///< 0: the entry is free, or being written
  std::atomic<std::uint64_t> made;  ///< ticks
  std::atomic<std::int32_t> rank, size;
  std::atomic<std::int32_t> first,
      stride;  ///< the members are first, first + stride, ...; stride 0: they are irregular
  std::array<char, 32> name;
};
static_assert(sizeof(RecordedGroup) == 64);

/// What a rank does apart from its calls.
enum class Stage : std::uint32_t { connecting, running, ended };

/// The whole memory: a header, tables, and the ring of records. One rank writes it: at any time the holder of its
/// progress token, or the thread that connects.
struct RecordedRank {
  static constexpr std::uint64_t is_magic = 0x4345524954545554;  // "TUTTIREC"
  static constexpr std::uint32_t is_version = 1;
  static constexpr std::size_t most_groups = 256, most_texts = 128, records_in_ring = 4096;

  std::atomic<std::uint64_t> magic;  ///< set last; 0: nobody has claimed the memory yet
  std::uint32_t version, bytes;
  std::atomic<std::int64_t> pid;  ///< of the rank; 0: not claimed
  std::uint64_t started;          ///< process_start(pid)
  std::int32_t rank, size;
  std::array<char, 64> host;     ///< its name
  std::array<char, 96> machine;  ///< machine_identity()
  std::array<char, 128> job;
  std::array<char, 128> program;

  // The clock: at tick `tick_at` the real-time clock showed `real_at` nanoseconds, and a second has had `per_second`
  // ticks since then.
  std::uint64_t tick_at, real_at;
  std::atomic<std::uint64_t> per_second;

  std::atomic<std::uint64_t> staged_at;  ///< ticks at which `stage` was set
  std::atomic<std::uint32_t> stage;
  std::atomic<std::uint32_t> waiters;    ///< threads that wait for a call and no longer only spin
  std::atomic<std::uint64_t> waits_for;  ///< number of the record of the call that a waiter waits for; 0: another task
  std::atomic<std::uint64_t> looked_at;  ///< ticks at which the library last looked after its calls
  std::atomic<std::uint64_t> newest;     ///< number of the newest record
  std::atomic<std::uint64_t> lost;       ///< calls without a record, as all records belonged to running calls
  std::atomic<std::uint32_t> failure_version;  ///< odd: `failure` is being written; 0: no failure
  std::array<char, 448> failure;               ///< the first Cause
  std::atomic<std::uint32_t> doing_version;    ///< odd: `doing` is being written
  std::array<char, 192> doing;                 ///< while connecting: what the rank waits for

  std::array<RecordedGroup, most_groups> groups;
  std::array<std::array<char, 48>, most_texts> texts;  ///< zero-terminated; number 0 is unused
  std::array<Record, records_in_ring> records;
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free && sizeof(RecordedRank) <= 512 << 10);

/// The distance from one rank's memory to the next one's in a file: whole pages of any size.
inline constexpr std::size_t recorded_slot_bytes = (sizeof(RecordedRank) + 65535) / 65536 * 65536;

}  // namespace tutti
