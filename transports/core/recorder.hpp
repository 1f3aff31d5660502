// Recorder: the flight recorder of one rank, which writes its last calls into memory that other processes can read and
// that outlives the rank.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "transports/core/descriptor.hpp"
#include "transports/core/record.hpp"
#include "transports/core/ticks.hpp"
#include "tutti/status.hpp"

namespace tutti {

/// What a record says of a call when it is launched.
struct RecordEntry {
  Record::What what = Record::What::collective;
  std::uint64_t group = 0;
  std::uint64_t call = 0;      ///< bits of its Signature
  std::uint64_t bytes = 0;     ///< see Record::bytes
  std::uint32_t sequence = 0;  ///< see Record::sequence
  std::int32_t peer = -1;
  std::uint16_t label = 0;
  std::uint8_t how = 0;
  bool is_stamped = true;  ///< false: stamp(), ended() or ended_at_once() follows within microseconds
};

/// A communicator as its entry describes it: see RecordedGroup.
struct RecordedMembers {
  std::uint64_t id = 0;
  int rank = 0, size = 1;
  int first = 0, stride = 1;
};

/// The text in file names and in /proc/PID/fd by which recorders are found.
inline constexpr std::string_view recorder_name = "tutti-recorder";
/// The variable by which `tutti run` passes the descriptor of the memory for all ranks of a host.
inline constexpr const char* recorder_variable = "TUTTI_RECORDER_FD";

/// Makes memory for the recorders of `ranks` ranks: a sealed memfd or, if the kernel refuses that, an unlinked file. If
/// `folder` is not empty, a file in it named after `job`, which stays there. The descriptor is closed in programs that
/// this process executes. Throws Error{resource, invalid}.
Descriptor make_recorder_file(int ranks, const std::string& folder, const std::string& job);
/// Empties the place `slot` of such a file, for the process that comes after one that has ended. Returns false if that
/// is impossible; a process that finds its place taken makes memory of its own.
bool clear_recorder_slot(int file, int slot) noexcept;

/// Threads: the holder of the context's progress token, except for functions that say otherwise. A call takes one
/// record of 64 bytes, and reads ticks() once if it ends within its start, otherwise twice. There is no system call.
class Recorder {
 public:
  struct Owner {
    int rank = 0, size = 1;
    int slot = 0;  ///< the rank's place in the memory that `tutti run` has made
    std::string job;
  };
  /// `setting` is the value of the setting `recorder`: on, off, or a folder. Null if it is off, or if the memory is
  /// refused, which is logged.
  static std::unique_ptr<Recorder> make(std::string_view setting, const Owner& owner);
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  /// True for the first caller, which alone may write from then on. Any thread.
  bool claim() noexcept { return !claimed_.exchange(true); }

  /// Writes a record of a call whose start begins. The pointer is valid until done() or failed(). Null if all records
  /// belong to running calls.
  Record* begin(const RecordEntry& entry) noexcept {
    Record* const record = next();
    if (record == nullptr) return nullptr;
    record->number.store(0, std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    record->launched.store(entry.is_stamped ? ticks() : 0, std::memory_order_relaxed);
    record->ended.store(0, std::memory_order_relaxed);
    record->group.store(entry.group, std::memory_order_relaxed);
    record->call.store(entry.call, std::memory_order_relaxed);
    record->bytes.store(entry.bytes, std::memory_order_relaxed);
    record->sequence.store(entry.sequence, std::memory_order_relaxed);
    record->peer.store(entry.peer, std::memory_order_relaxed);
    record->first.store(0, std::memory_order_relaxed);
    record->label.store(entry.label, std::memory_order_relaxed);
    record->how.store(entry.how, std::memory_order_relaxed);
    record->kind.store(Record::kind_of(entry.what, Record::State::running), std::memory_order_relaxed);
    record->number.store(++number_, std::memory_order_release);
    memory_->newest.store(number_, std::memory_order_relaxed);
    return record;
  }
  /// Notes the time of the start, if that was left for later. `record` may be null.
  static void stamp(Record* record) noexcept {
    if (record != nullptr && record->launched.load(std::memory_order_relaxed) == 0)
      record->launched.store(ticks(), std::memory_order_relaxed);
  }
  /// Notes that a call ended well within its start.
  static void ended_at_once(Record& record) noexcept {
    stamp(&record);
    set_state(record, Record::State::done);
  }
  static void ended(Record& record, bool ok) noexcept {
    stamp(&record);
    record.ended.store(ticks(), std::memory_order_relaxed);
    set_state(record, ok ? Record::State::done : Record::State::failed);
  }
  /// Notes that the first data of another rank have arrived.
  static void arrived(Record& record) noexcept;

  /// Notes what the rank does: `doing` says what it waits for while it connects. Any thread while there is one.
  void set_stage(Stage stage, std::string_view doing = {}) noexcept;
  /// Notes that the library looks after its calls, and measures the clock again.
  void looked() noexcept;
  /// Notes that one more thread, or one less, waits for a call. Any thread.
  void begin_wait(const Record* record) noexcept;
  void end_wait() noexcept { memory_->waiters.fetch_sub(1); }
  /// Notes the first failure. Any thread, one at a time.
  void failed(const Cause& why) noexcept;

  /// Takes an entry for a communicator, or -1 if there is none left. Any thread.
  int add_group(const RecordedMembers& group, std::string_view name) noexcept;
  void name_group(int entry, std::string_view name) noexcept;
  void drop_group(int entry) noexcept;
  /// Returns the number of a text, and keeps it. 0 if the table is full. Any thread.
  std::uint8_t text(std::string_view text) noexcept;

  /// The descriptor of the memory; it has one RecordedRank after the other.
  int file() const noexcept { return file_.fd(); }

 private:
  Recorder(Descriptor file, RecordedRank& memory, const Owner& owner);
  static std::unique_ptr<Recorder> adopt(const Owner& owner);

  static void set_state(Record& record, Record::State state) noexcept {
    const auto what = static_cast<Record::What>(record.kind.load(std::memory_order_relaxed) & 15);
    record.kind.store(Record::kind_of(what, state), std::memory_order_release);
  }
  static bool runs(const Record& record) noexcept {
    return record.number.load(std::memory_order_relaxed) != 0 &&
           record.kind.load(std::memory_order_relaxed) >> 4 == static_cast<unsigned>(Record::State::running);
  }
  Record* next() noexcept {
    Record* const record = &memory_->records[place_];
    place_ = (place_ + 1) % RecordedRank::records_in_ring;
    return runs(*record) ? next_free() : record;
  }
  Record* next_free() noexcept;

  Descriptor file_;
  RecordedRank* const memory_;
  std::uint64_t number_ = 0;
  std::size_t place_ = 0;  // of the next record
  const std::uint32_t generation_;
  std::atomic<bool> claimed_{false};
};

}  // namespace tutti
