// Parses the setting `chaos`, and plays the faults of system calls.
#include "transports/core/chaos.hpp"

#include <charconv>
#include <limits>
#include <mutex>

#include "tutti/status.hpp"

namespace tutti {
namespace {

constexpr std::string_view chaos_example = "seed=7,delay=8,lazy=30,short=20,eintr=10,memory=5,kill=2@17,cut=0-3@12";

[[noreturn]] void no_chaos(std::string_view part, const std::string& why) {
  throw Error(Code::invalid,
              "'" + std::string(part) + "' is no chaos: " + why + "; write it like " + std::string(chaos_example));
}

/// One part "name=value" of the text, of which `rest` is not read yet.
class ChaosPart {
 public:
  explicit ChaosPart(std::string_view part) : part_(part), name_(part.substr(0, part.find('='))) {
    if (name_.size() == part.size()) no_chaos(part, "it has no '='");
    rest_ = part.substr(name_.size() + 1);
  }

  std::string_view name() const noexcept { return name_; }
  std::string_view rest() const noexcept { return rest_; }
  [[noreturn]] void refuse(const std::string& why) const { no_chaos(part_, why); }

  template <class T>
  T number(T least, T most, const char* what) {
    T value{};
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (error != std::errc() || value < least || value > most)
      refuse(std::string(what) + " is a whole number from " + std::to_string(least) + " to " + std::to_string(most));
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    return value;
  }
  int percentage(int most) { return number(0, most, "a percentage"); }
  int rank() { return number(0, std::numeric_limits<int>::max(), "a rank"); }
  std::uint64_t step() {
    return number<std::uint64_t>(1, std::numeric_limits<std::uint32_t>::max(), "a step (behind the @)");
  }
  bool takes(char sign) {
    if (!rest_.starts_with(sign)) return false;
    rest_.remove_prefix(1);
    return true;
  }
  void need(char sign, const char* form) {
    if (!takes(sign)) refuse(std::string("it has the form ") + form);
  }

 private:
  std::string_view part_, name_, rest_;
};

RankFault read_rank_fault(ChaosPart& part) {
  RankFault fault;
  fault.rank = part.rank();
  part.need('@', "RANK@STEP");
  fault.step = part.step();
  return fault;
}

LinkFault read_link_fault(ChaosPart& part) {
  LinkFault fault;
  fault.a = part.rank();
  part.need('-', "RANK-RANK@STEP");
  fault.b = part.rank();
  part.need('@', "RANK-RANK@STEP");
  fault.step = part.step();
  if (fault.a == fault.b) part.refuse("a rank has no link to itself");
  return fault;
}

void read_memory(Chaos& chaos, ChaosPart& part) {
  if (part.takes('@'))
    chaos.memory_nth = part.step();
  else
    chaos.memory = part.percentage(100);
}

bool read_switch(ChaosPart& part) {
  const std::string_view word = part.rest();
  if (word != "on" && word != "off") part.refuse("it is on or off");
  for (std::size_t i = word.size(); i > 0; --i) part.takes(part.rest().front());
  return word == "on";
}

void read_chaos_part(Chaos& chaos, std::string_view text) {
  ChaosPart part(text);
  const std::string_view name = part.name();
  if (name == "seed")
    chaos.seed = part.number<std::uint64_t>(0, std::numeric_limits<std::uint64_t>::max(), "a seed");
  else if (name == "delay")
    chaos.delay = part.number(0, 1000, "a number of progress() calls");
  else if (name == "lazy")
    chaos.lazy = part.percentage(99);
  else if (name == "short")
    chaos.short_part = part.percentage(100);
  else if (name == "eintr")
    chaos.eintr = part.percentage(90);
  else if (name == "memory")
    read_memory(chaos, part);
  else if (name == "kill")
    chaos.kill = read_rank_fault(part);
  else if (name == "stop")
    chaos.stop = read_rank_fault(part);
  else if (name == "lose")
    chaos.lose = read_rank_fault(part);
  else if (name == "cut")
    chaos.cut = read_link_fault(part);
  else if (name == "backend")
    chaos.backend = read_switch(part);
  else
    part.refuse("there are seed, delay, lazy, short, eintr, memory, kill, stop, lose, cut and backend");
  if (!part.rest().empty()) part.refuse("'" + std::string(part.rest()) + "' is too much");
}

}  // namespace

Chaos parse_chaos(std::string_view text) {
  Chaos chaos;
  for (std::string_view rest = text;;) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    read_chaos_part(chaos, rest.substr(0, comma));
    if (comma == rest.size()) return chaos;
    rest.remove_prefix(comma + 1);
  }
}

std::string to_string(const Chaos& chaos) {
  std::string text = "seed=" + std::to_string(chaos.seed);
  const auto add = [&text](const char* name, int value) {
    if (value > 0) text += std::string(",") + name + "=" + std::to_string(value);
  };
  add("delay", chaos.delay);
  add("lazy", chaos.lazy);
  add("short", chaos.short_part);
  add("eintr", chaos.eintr);
  add("memory", chaos.memory);
  if (chaos.memory_nth > 0) text += ",memory=@" + std::to_string(chaos.memory_nth);
  const auto add_fault = [&text](const char* name, const RankFault& fault) {
    if (fault.rank >= 0)
      text += std::string(",") + name + "=" + std::to_string(fault.rank) + "@" + std::to_string(fault.step);
  };
  add_fault("kill", chaos.kill);
  add_fault("stop", chaos.stop);
  add_fault("lose", chaos.lose);
  if (const LinkFault& cut = chaos.cut; cut.a >= 0)
    text += ",cut=" + std::to_string(cut.a) + "-" + std::to_string(cut.b) + "@" + std::to_string(chaos.cut.step);
  return chaos.backend ? text : text + ",backend=off";
}

Chaos Chaos::in_later_world() const {
  Chaos rest = *this;
  rest.kill = rest.stop = rest.lose = {};
  rest.cut = {};
  return rest;
}

namespace system_faults {
namespace {

// Plain words that any thread may read at any time, so that the end of a job needs no wait for readers.
struct Played {
  std::mutex tickets_mutex;
  int tickets = 0;
  std::atomic<int> short_part{0}, eintr{0}, memory{0};
  std::atomic<std::uint64_t> memory_nth{0}, reservations{0}, dice{0};
  std::atomic<int> cut_a{-1}, cut_b{-1};

  int roll() noexcept { return static_cast<int>(Dice::mixed(dice.fetch_add(Dice::step)) % 100); }
};

Played& played() noexcept {
  static Played& all = *new Played;  // never destroyed, as threads may outlive main()
  return all;
}

}  // namespace

Ticket::Ticket(const Chaos& chaos, int rank) noexcept {
  Played& all = played();
  const std::lock_guard lock(all.tickets_mutex);
  if (all.tickets++ > 0) return;
  all.short_part = chaos.short_part;
  all.eintr = chaos.eintr;
  all.memory = chaos.memory;
  all.memory_nth = chaos.memory_nth;
  all.reservations = 0;
  all.dice = Dice(chaos.seed, static_cast<std::uint64_t>(rank)).next();
  all.cut_a = all.cut_b = -1;
  on = chaos.short_part > 0 || chaos.eintr > 0 || chaos.memory > 0 || chaos.memory_nth > 0 || chaos.cut.a >= 0;
}

Ticket::~Ticket() {
  Played& all = played();
  const std::lock_guard lock(all.tickets_mutex);
  if (--all.tickets == 0) on = false;
}

bool interrupts() noexcept {
  const int chance = played().eintr;
  return chance > 0 && played().roll() < chance;
}

bool refuses_memory() noexcept {
  if (!is_on()) return false;
  Played& all = played();
  const std::uint64_t number = ++all.reservations, nth = all.memory_nth;
  const int chance = all.memory;
  return nth > 0 ? number == nth : chance > 0 && all.roll() < chance;
}

void shorten(msghdr& message) noexcept {
  const int chance = played().short_part;
  if (chance == 0 || played().roll() >= chance) return;
  std::size_t total = 0;
  for (std::size_t i = 0; i < message.msg_iovlen; ++i) total += message.msg_iov[i].iov_len;
  if (total < 2) return;
  std::size_t left = 1 + Dice::mixed(played().dice.fetch_add(Dice::step)) % (total - 1);
  std::size_t parts = 0;
  while (left > 0) {
    iovec& part = message.msg_iov[parts++];
    part.iov_len = std::min(part.iov_len, left);
    left -= part.iov_len;
  }
  message.msg_iovlen = parts;
}

void cut(const LinkFault& link) noexcept {
  played().cut_b = link.b;
  played().cut_a = link.a;
}

int peer_cut_from(int rank) noexcept {
  const int a = played().cut_a, b = played().cut_b;
  return rank == a ? b : rank == b ? a : -1;
}

}  // namespace system_faults
}  // namespace tutti
