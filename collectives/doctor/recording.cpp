#include "collectives/doctor/recording.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <memory>
#include <utility>

namespace tutti::doctor {
namespace {

constexpr std::size_t slot_bytes = recorded_slot_bytes;
constexpr std::size_t most_slots = 4096;
constexpr double usual_rate = 1e9;  // ticks per second, until the rank has measured it

template <std::size_t Size>
std::string text_of(const std::array<char, Size>& text) {
  std::string result(text.data(), ::strnlen(text.data(), Size));
  for (char& c : result)
    if (static_cast<unsigned char>(c) < ' ' || c == 0x7f) c = '?';
  return result;
}

/// A copy of one slot, of which nothing changes any more.
class Slot {
 public:
  explicit Slot(const RecordedRank& copy) : slot_(copy) {
    const std::uint64_t rate = slot_.per_second.load();
    per_tick_ = 1e9 / (rate == 0 ? usual_rate : static_cast<double>(rate));
  }
  const RecordedRank* operator->() const noexcept { return &slot_; }

  Time time_of(std::uint64_t ticks) const noexcept {
    if (ticks == 0) return 0;
    constexpr double most = 4e18;  // damaged memory may have any times; sums and differences must not overflow
    const auto passed = static_cast<double>(static_cast<std::int64_t>(ticks - slot_.tick_at)) * per_tick_;
    return static_cast<Time>(std::min<std::uint64_t>(slot_.real_at, static_cast<std::uint64_t>(most))) +
           static_cast<Time>(std::clamp(passed, -most, most));
  }
  std::string text(std::size_t number) const {
    return number == 0 || number >= slot_.texts.size() ? std::string() : text_of(slot_.texts[number]);
  }

 private:
  const RecordedRank& slot_;
  double per_tick_;
};

RecordedCall call_of(const Record& record, const Slot& slot) {
  RecordedCall call;
  call.number = record.number.load();
  const unsigned kind = record.kind.load();
  call.what = static_cast<Record::What>(std::min(kind & 15, static_cast<unsigned>(Record::What::control)));
  call.state = static_cast<Record::State>(std::min(kind >> 4, static_cast<unsigned>(Record::State::failed)));
  const std::uint64_t launched = record.launched.load();
  call.launched = slot.time_of(launched);
  call.ended = slot.time_of(record.ended.load());
  if (const std::uint64_t first = record.first.load(); first != 0 && launched != 0)
    call.first = slot.time_of(launched + first * Record::ticks_of_first);
  call.group = record.group.load();
  call.call = {record.call.load()};
  call.bytes = record.bytes.load();
  call.sequence = record.sequence.load();
  call.peer = record.peer.load();
  if (call.what == Record::What::exchange) {
    call.from = static_cast<std::int32_t>(static_cast<std::uint32_t>(call.bytes));
    call.bytes = 0;
  }
  call.label = slot.text(record.label.load());
  call.how = slot.text(record.how.load());
  return call;
}

std::vector<RecordedCommunicator> communicators_of(const Slot& slot) {
  std::vector<RecordedCommunicator> all;
  for (const RecordedGroup& one : slot->groups) {
    if (one.id.load() == 0) continue;
    RecordedCommunicator made;
    made.id = one.id.load();
    made.name = text_of(one.name);
    made.rank = one.rank.load();
    made.size = std::max(one.size.load(), 1);
    made.first = one.first.load();
    made.stride = one.stride.load();
    made.made = slot.time_of(one.made.load());
    all.push_back(std::move(made));
  }
  return all;
}

Recording recording_of(const RecordedRank& before, const Slot& slot, const RecordedRank& after) {
  Recording all;
  all.rank = slot->rank;
  all.size = std::max(slot->size, 1);
  all.pid = slot->pid.load();
  all.started = slot->started;
  all.host = text_of(slot->host);
  all.machine = text_of(slot->machine);
  all.job = text_of(slot->job);
  all.program = text_of(slot->program);
  all.stage = static_cast<Stage>(std::min(slot->stage.load(), static_cast<std::uint32_t>(Stage::ended)));
  all.staged_at = slot.time_of(slot->staged_at.load());
  if (slot->doing_version.load() % 2 == 0 && slot->doing_version.load() == after.doing_version.load())
    all.doing = text_of(slot->doing);
  all.waiters = slot->waiters.load();
  all.waits_for = slot->waits_for.load();
  all.looked_at = slot.time_of(slot->looked_at.load());
  all.lost = slot->lost.load();
  if (slot->failure_version.load() == 2) all.failure = Cause::received(slot->failure.data());
  all.communicators = communicators_of(slot);
  for (std::size_t i = 0; i < slot->records.size(); ++i) {
    const std::uint64_t number = slot->records[i].number.load();
    if (number == 0 || number != before.records[i].number.load() || number != after.records[i].number.load())
      continue;  // it was being written
    all.calls.push_back(call_of(slot->records[i], slot));
  }
  std::ranges::sort(all.calls, {}, &RecordedCall::number);
  return all;
}

bool read_slot(int file, std::size_t slot, RecordedRank& into) {
  auto* const bytes = reinterpret_cast<std::byte*>(&into);
  std::size_t have = 0;
  while (have < sizeof into) {
    const ssize_t n = ::pread(file, bytes + have, sizeof into - have, static_cast<off_t>(slot * slot_bytes + have));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    have += static_cast<std::size_t>(n);
  }
  return true;
}

/// Reads slots while their ranks write. Of three copies made one after the other, the middle one has a record whole if
/// the first and the last have the same number for it.
class SlotReader {
 public:
  std::optional<Recording> read(int file, std::size_t slot) {
    for (const auto& copy : copies_)
      if (!read_slot(file, slot, *copy)) return std::nullopt;
    const auto& [before, copy, after] = copies_;
    if (copy->magic.load() != RecordedRank::is_magic || copy->version != RecordedRank::is_version ||
        copy->bytes != slot_bytes)
      return std::nullopt;
    return recording_of(*before, Slot(*copy), *after);
  }

 private:
  std::array<std::unique_ptr<RecordedRank>, 3> copies_ = {
      std::make_unique<RecordedRank>(), std::make_unique<RecordedRank>(), std::make_unique<RecordedRank>()};
};

}  // namespace

const RecordedCommunicator* Recording::communicator(std::uint64_t id) const noexcept {
  const auto found = std::ranges::find(communicators, id, &RecordedCommunicator::id);
  return found == communicators.end() ? nullptr : &*found;
}

const RecordedCall* Recording::call(std::uint64_t number) const noexcept {
  const auto found = std::ranges::lower_bound(calls, number, {}, &RecordedCall::number);
  return found == calls.end() || found->number != number ? nullptr : &*found;
}

std::optional<Recording> read_recording(int file, std::size_t slot) { return SlotReader().read(file, slot); }

std::vector<Recording> read_recordings(int file) {
  struct stat status = {};
  std::vector<Recording> all;
  if (::fstat(file, &status) != 0 || status.st_size < static_cast<off_t>(slot_bytes)) return all;
  const std::size_t slots = std::min(static_cast<std::size_t>(status.st_size) / slot_bytes, most_slots);
  SlotReader reader;
  for (std::size_t slot = 0; slot < slots; ++slot)
    if (auto one = reader.read(file, slot)) all.push_back(std::move(*one));
  return all;
}

}  // namespace tutti::doctor
