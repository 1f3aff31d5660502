#include "engine/report/trace.hpp"

#include <algorithm>
#include <cstdio>
#include <limits>

namespace tutti::engine {
namespace {

constexpr std::size_t words = 4;  // per interval: kind, step, begin, end

struct Name {
  const char* text;
  int row;
};
/// Name and row of each Trace::Kind, in the enumerators' order.
constexpr Name names[] = {
    {"step", 0},  {"load", 1},    {"forward and backward", 1}, {"exposed communication", 1}, {"update", 1},
    {"other", 1}, {"exchange", 2}};
constexpr const char* rows[] = {"steps", "phases", "exchange"};

std::string quoted(const std::string& text) {
  std::string safe = "\"";
  for (const char c : text)
    if (static_cast<unsigned char>(c) >= ' ' && c != '"' && c != '\\') safe += c;
  return safe + "\"";
}

std::string metadata(const char* what, std::size_t rank, int row, const std::string& name) {
  return std::string("{\"name\":\"") + what + "\",\"ph\":\"M\",\"pid\":" + std::to_string(rank) +
         ",\"tid\":" + std::to_string(row) + ",\"args\":{\"name\":" + quoted(name) + "}},\n";
}

std::string microseconds(std::int64_t nanoseconds) {
  char text[40];
  std::snprintf(text, sizeof text, "%.3f", static_cast<double>(nanoseconds) / 1000);
  return text;
}

std::string event(std::size_t rank, const std::int64_t* interval, std::int64_t origin) {
  const Name& name = names[interval[0]];
  const std::string step = std::to_string(interval[1]);
  return std::string("{\"name\":\"") + name.text + (interval[0] == 0 ? " " + step : "") +
         "\",\"ph\":\"X\",\"pid\":" + std::to_string(rank) + ",\"tid\":" + std::to_string(name.row) +
         ",\"ts\":" + microseconds(interval[2] - origin) + ",\"dur\":" + microseconds(interval[3] - interval[2]) +
         ",\"args\":{\"step\":" + step + "}},\n";
}

}  // namespace

void Trace::add(Kind kind, Nanoseconds begin, Nanoseconds end) {
  if (recording() && end > begin) intervals_.push_back({kind, steps_, begin, end});
}

void Trace::end_step(Nanoseconds begin, Nanoseconds end) {
  add(Kind::step, begin, end);
  ++steps_;
}

std::string Trace::gather(Communicator& world, const ClockOffset& offset) const {
  const auto ranks = static_cast<std::size_t>(world.size());
  std::vector<std::int64_t> mine, lengths(world.rank() == 0 ? ranks : 0);
  for (const Interval& each : intervals_)
    mine.insert(mine.end(), {static_cast<std::int64_t>(each.kind), static_cast<std::int64_t>(each.step),
                             each.begin - offset.ahead, each.end - offset.ahead});
  std::vector<std::int64_t> length{static_cast<std::int64_t>(mine.size())};
  world.gather(length, lengths, 0).wait();
  const std::vector<std::size_t> counts(lengths.begin(), lengths.end());
  std::size_t total = 0;
  for (const std::size_t count : counts) total += count;
  std::vector<std::int64_t> all(world.rank() == 0 ? total : 0);
  world.gatherv(mine, all, counts, 0).wait();
  if (world.rank() != 0) return {};

  std::int64_t origin = std::numeric_limits<std::int64_t>::max();
  for (std::size_t at = 0; at < all.size(); at += words) origin = std::min(origin, all[at + 2]);
  std::string json = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
  const Topology topology = world.topology();
  std::size_t at = 0;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    json += metadata("process_name", rank, 0,
                     "rank " + std::to_string(rank) + " on " + topology[static_cast<int>(rank)].host_name);
    for (int row = 0; row < 3; ++row) json += metadata("thread_name", rank, row, rows[row]);
    for (const std::size_t end = at + counts[rank]; at < end; at += words) json += event(rank, &all[at], origin);
  }
  json.erase(json.size() - 2);  // the last comma
  return json + "\n]}\n";
}

}  // namespace tutti::engine
