// A letter is a sequence of numbers of variable length (varint.hpp) and texts. A text follows its length. Times are
// differences, which are short.
#include "collectives/doctor/letter.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <utility>

#include "transports/core/printable.hpp"
#include "transports/core/varint.hpp"

namespace tutti::doctor {
namespace {

using What = RecordedCall::What;
using State = RecordedCall::State;

constexpr std::uint64_t version = 1;
constexpr std::uint64_t most_ranks = 1 << 20, most_communicators = RecordedRank::most_groups,
                        most_records = RecordedRank::records_in_ring;
constexpr std::size_t longest_text = 2048;
constexpr Time latest_time = Time{1} << 62, largest_offset = Time{1} << 60;

Time possible(Time value) { return std::clamp<Time>(value, 0, latest_time - 1); }

class Writer {
 public:
  void number(std::uint64_t value) { put_varint(text_, value); }
  void whole(std::int64_t value) {
    const auto bits = static_cast<std::uint64_t>(value);
    number(value < 0 ? ~(bits << 1) : bits << 1);
  }
  void time(Time value) { number(static_cast<std::uint64_t>(possible(value))); }
  /// How much later `value` is than `start`, plus one; 0 for a time that is 0.
  void later(Time value, Time start) {
    time(value == 0 ? 0 : std::max<Time>(possible(value) - possible(start), 0) + 1);
  }
  void text(std::string_view value) {
    value = value.substr(0, longest_text);
    number(value.size());
    text_ += value;
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

class Reader {
 public:
  explicit Reader(std::string_view text) : rest_(text) {
    if (text.size() > longest_letter) refuse();
  }
  [[noreturn]] static void refuse() {
    throw Error(Code::protocol,
                "what another host says of its ranks is malformed; install one version of tutti on all hosts");
  }
  std::uint64_t number() {
    const auto value = take_varint(rest_, 64);
    if (!value) refuse();
    return *value;
  }
  std::uint64_t number_to(std::uint64_t most) {
    const std::uint64_t value = number();
    if (value > most) refuse();
    return value;
  }
  std::int64_t whole() {
    const std::uint64_t value = number();
    return static_cast<std::int64_t>((value & 1) != 0 ? ~(value >> 1) : value >> 1);
  }
  std::int64_t whole_in(std::int64_t least, std::int64_t most) {
    const std::int64_t value = whole();
    if (value < least || value > most) refuse();
    return value;
  }
  int index(int least, std::uint64_t end) {
    return static_cast<int>(whole_in(least, static_cast<std::int64_t>(end) - 1));
  }
  Time time() { return static_cast<Time>(number_to(latest_time - 1)); }
  template <class T>
  T choice(T last) {
    return static_cast<T>(number_to(static_cast<std::uint64_t>(last)));
  }
  std::string text() {
    std::string value(bytes(number_to(longest_text)));
    make_printable(value.data(), value.size());
    return value;
  }
  std::string_view bytes(std::size_t size) {
    if (rest_.size() < size) refuse();
    const std::string_view value = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return value;
  }
  void end() const {
    if (!rest_.empty()) refuse();
  }

 private:
  std::string_view rest_;
};

/// The labels and algorithms of a recording, which recur in its calls. Number 0 is the empty text.
class Texts {
 public:
  std::uint64_t number_of(const std::string& text) {
    if (text.empty()) return 0;
    const auto [known, is_new] = numbers_.try_emplace(text, order_.size() + 1);
    if (is_new) order_.push_back(&known->first);
    return known->second;
  }
  void write(Writer& out) const {
    out.number(order_.size());
    for (const std::string* const text : order_) out.text(*text);
  }

 private:
  std::map<std::string, std::uint64_t> numbers_;
  std::vector<const std::string*> order_;
};

void write_header(Writer& out, const Recording& from) {
  out.number(static_cast<std::uint64_t>(from.size));
  out.number(static_cast<std::uint64_t>(from.rank));
  out.whole(from.pid);
  out.number(from.started);
  for (const std::string* const text : {&from.host, &from.machine, &from.job, &from.program, &from.doing})
    out.text(*text);
  out.number(static_cast<std::uint64_t>(from.stage));
  out.time(from.staged_at);
  out.number(from.waiters);
  out.number(from.waits_for);
  out.time(from.looked_at);
  out.number(from.lost);
  out.number(from.failure ? 1 : 0);
  if (from.failure) {
    const Cause& cause = *from.failure;
    out.text({reinterpret_cast<const char*>(&cause), sizeof cause});
  }
}

Recording read_header(Reader& in) {
  Recording to;
  to.size = static_cast<int>(in.number_to(most_ranks));
  to.rank = static_cast<int>(in.number_to(most_ranks));
  if (to.rank >= to.size) Reader::refuse();
  to.pid = in.whole_in(0, std::numeric_limits<std::int32_t>::max());
  to.started = in.number();
  for (std::string* const text : {&to.host, &to.machine, &to.job, &to.program, &to.doing}) *text = in.text();
  to.stage = in.choice(Stage::ended);
  to.staged_at = in.time();
  to.waiters = static_cast<std::uint32_t>(in.number_to(std::numeric_limits<std::uint32_t>::max()));
  to.waits_for = in.number();
  to.looked_at = in.time();
  to.lost = in.number();
  if (in.number_to(1) != 0) {
    if (in.number() != sizeof(Cause)) Reader::refuse();
    to.failure = Cause::received(in.bytes(sizeof(Cause)).data());
  }
  return to;
}

void write(Writer& out, const RecordedCommunicator& from) {
  out.number(from.id);
  out.text(from.name);
  out.whole(from.rank);
  out.number(static_cast<std::uint64_t>(from.size));
  out.whole(from.first);
  out.whole(from.stride);
  out.time(from.made);
}

RecordedCommunicator read_communicator(Reader& in, std::uint64_t ranks) {
  RecordedCommunicator to;
  const auto far = static_cast<std::int64_t>(most_ranks);
  to.id = in.number();
  to.name = in.text();
  to.rank = in.index(-1, most_ranks);
  to.size = static_cast<int>(in.number_to(ranks));
  to.first = static_cast<int>(in.whole_in(-far, far));
  to.stride = static_cast<int>(in.whole_in(-far, far));
  to.made = in.time();
  const std::int64_t last = to.first + std::int64_t{to.stride} * (to.size - 1);
  if (to.size < 1 || last > far || last < -far) Reader::refuse();
  return to;
}

void write(Writer& out, const RecordedCall& from, const RecordedCall& before, Texts& texts) {
  out.number(from.number - before.number);
  out.number(static_cast<std::uint64_t>(from.what));
  out.number(static_cast<std::uint64_t>(from.state));
  out.time(from.launched);
  out.later(from.ended, from.launched);
  out.later(from.first, from.launched);
  out.number(from.group);
  out.number(from.call.bits);
  out.number(from.bytes);
  out.number(from.sequence);
  out.whole(from.peer);
  out.whole(from.from);
  out.number(texts.number_of(from.label));
  out.number(texts.number_of(from.how));
}

RecordedCall read_call(Reader& in, const RecordedCall& before, const std::vector<std::string>& texts) {
  RecordedCall to;
  const std::uint64_t step = in.number();
  to.number = before.number + step;
  if (step == 0 || to.number < before.number) Reader::refuse();
  to.what = in.choice(What::control);
  to.state = in.choice(State::failed);
  to.launched = in.time();
  const auto later = [&] {
    const Time length = in.time();
    if (length > latest_time - to.launched) Reader::refuse();
    return length == 0 ? 0 : to.launched + length - 1;
  };
  to.ended = later();
  to.first = later();
  to.group = in.number();
  to.call.bits = in.number();
  to.bytes = in.number();
  to.sequence = static_cast<std::uint32_t>(in.number_to(std::numeric_limits<std::uint32_t>::max()));
  to.peer = in.index(-1, most_ranks);
  to.from = in.index(-2, most_ranks);
  to.label = texts[in.number_to(texts.size() - 1)];
  to.how = texts[in.number_to(texts.size() - 1)];
  return to;
}

}  // namespace

std::string letter_of(const Patient& patient, std::size_t most_calls) {
  const Recording& from = patient.recording;
  Writer calls;
  Texts texts;
  std::uint64_t count = 0;
  RecordedCall before;
  for (std::size_t i = 0; i < from.calls.size() && count < most_records; ++i) {
    const RecordedCall& call = from.calls[i];
    if (from.calls.size() - i > most_calls && call.state != State::running) continue;
    write(calls, call, before, texts);
    before.number = call.number;
    ++count;
  }
  Writer out;
  out.number(version);
  out.number(static_cast<std::uint64_t>(patient.life));
  out.text(patient.process);
  write_header(out, from);
  out.number(std::min<std::uint64_t>(from.communicators.size(), most_communicators));
  for (std::size_t i = 0; i < from.communicators.size() && i < most_communicators; ++i)
    write(out, from.communicators[i]);
  texts.write(out);
  out.number(count);
  return out.take() + calls.take();
}

Patient read_patient(std::string_view letter) {
  Reader in(letter);
  if (in.number() != version) Reader::refuse();
  Patient patient;
  patient.life = in.choice(Patient::Life::gone);
  patient.process = in.text();
  patient.recording = read_header(in);
  Recording& to = patient.recording;
  for (auto left = in.number_to(most_communicators); left > 0; --left)
    to.communicators.push_back(read_communicator(in, static_cast<std::uint64_t>(to.size)));
  std::vector<std::string> texts(1);
  for (auto left = in.number_to(2 * RecordedRank::most_texts); left > 0; --left) texts.push_back(in.text());
  RecordedCall before;
  for (auto left = in.number_to(most_records); left > 0; --left) {
    to.calls.push_back(read_call(in, before, texts));
    before.number = to.calls.back().number;
  }
  in.end();
  return patient;
}

std::string letter_of(const AskedHost& host) {
  Writer out;
  out.number(version);
  out.text(host.name);
  out.number(host.answers ? 1 : 0);
  out.number(host.here ? 1 : 0);
  out.time(host.silent_for);
  out.text(host.why);
  out.whole(std::clamp(host.ahead, -largest_offset, largest_offset));
  out.time(host.error);
  out.number(host.ranks.size());
  int before = 0;
  for (const int rank : host.ranks) out.number(static_cast<std::uint64_t>(rank - std::exchange(before, rank)));
  return out.take();
}

AskedHost read_host(std::string_view letter) {
  Reader in(letter);
  if (in.number() != version) Reader::refuse();
  AskedHost host;
  host.name = in.text();
  host.answers = in.number_to(1) != 0;
  host.here = in.number_to(1) != 0;
  host.silent_for = in.time();
  host.why = in.text();
  host.ahead = in.whole_in(-largest_offset, largest_offset);
  host.error = in.time();
  std::uint64_t rank = 0;
  for (auto left = in.number_to(most_ranks); left > 0; --left) {
    rank += in.number_to(most_ranks);
    if (rank >= most_ranks) Reader::refuse();
    host.ranks.push_back(static_cast<int>(rank));
  }
  in.end();
  return host;
}

}  // namespace tutti::doctor
