#include "tools/plan/numbers.hpp"

#include <fmt/format.h>

#include "collectives/plan/geometry.hpp"
#include "tools/plan/text.hpp"

namespace tutti::planning {
namespace {

std::string number(std::optional<double> value) { return value ? fmt::format("{:.9g}", *value) : "null"; }

std::string json_text(std::string_view text) {
  std::string safe = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') safe += '\\';
    safe += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  }
  return safe + '"';
}

/// Returns the call as the beginning of a JSON object; the caller appends the rest.
std::string call_numbers(const Request& request) {
  const Hosts& hosts = *request.hosts;
  const model::Network& net = request.network;
  std::string levels;
  for (const model::Level level : {model::Level::within, model::Level::between, model::Level::beyond})
    if (level != model::Level::beyond || net.tells_racks())
      levels += fmt::format("{}: {{\"latency\": {:.9g}, \"per_byte\": {:.9g}, \"overhead\": {:.9g}}}, ",
                            json_text(name(level)), net[level].latency, net[level].per_byte, net[level].overhead);
  const std::string racks = hosts.above() == nullptr ? "" : fmt::format("\"racks\": {}, ", hosts.above()->count());
  return fmt::format(
      "{{\"kind\": {}, \"ranks\": {}, \"hosts\": {}, {}\"smallest_host\": {}, \"largest_host\": {}, \"root\": {}, "
      "\"dtype\": {}, "
      "\"bytes\": {},\n \"network\": {{{}\"fold_per_byte\": {:.9g}{}}}",
      json_text(name(request.kind)), request.shape.size, hosts.count(), racks, hosts.smallest(), hosts.largest(),
      request.shape.root, json_text(name(request.dtype)), request.bytes(), levels, net.fold_per_byte,
      net.cores > 0 ? fmt::format(", \"cores\": {:.9g}", net.cores) : "");
}

std::string count_numbers(const Row& row) {
  const model::Counts& counts = row.counts();
  const bool racks = hosts_of(row.call.shape).above() != nullptr;
  const auto beyond = [&](std::size_t what) { return racks ? fmt::format(", \"beyond\": {}", what) : ""; };
  return fmt::format(
      "{{\"rounds\": {}, \"chain\": {}, \"messages\": {{\"within\": {}, \"between\": {}{}}}, "
      "\"bytes\": {{\"within\": {}, \"between\": {}{}}}, \"most_from_host\": {}, \"most_from_rank\": {}, "
      "\"most_messages\": {}, \"folded\": {}, "
      "\"copied\": {}, "
      "\"scratch\": {}}}",
      counts.rounds, row.replay ? std::to_string(counts.chain) : "null", counts.messages[0], counts.messages[1],
      beyond(counts.messages[2]), counts.bytes[0], counts.bytes[1], beyond(counts.bytes[2]), counts.most_from_host,
      counts.most_from_rank, counts.most_messages, counts.folded, counts.copied, counts.scratch);
}

std::string row_numbers(const Row& row, const Verdict* verdict) {
  const std::string replay = row.replay ? number(row.replay->seconds) : "null";
  return fmt::format(
      "{{\"algorithm\": {}, \"chosen\": {}, \"lanes\": {}, \"lane_bytes\": {}, \"estimate\": {}, \"replay\": {}, "
      "\"counts\": {}, \"check\": {}}}",
      json_text(row.algorithm->name), row.chosen, row.call.lanes.number, row.call.lanes.count * row.call.width,
      number(row.estimate), replay, row.counted.whole ? count_numbers(row) : "null",
      verdict == nullptr ? "null" : json_text(verdict->text));
}

/// Returns "[a, b]", where `text` converts each value.
template <typename Values, typename Make>
std::string list_of(const Values& values, Make text) {
  std::string list;
  for (const auto& value : values) list += (list.empty() ? "" : ", ") + text(value);
  return "[" + list + "]";
}

}  // namespace

std::string numbers(const Request& request, std::span<const Row> rows, std::span<const Verdict> verdicts) {
  const model::Bound bound = bound_of(request);
  std::string text = call_numbers(request);
  text += fmt::format(
      ",\n \"bound\": {{\"seconds\": {:.9g}, \"latency\": {:.9g}, \"bandwidth\": {:.9g}, \"fold\": {:.9g}}}",
      bound.seconds, bound.latency, bound.bandwidth, bound.fold);
  std::string list;
  for (std::size_t i = 0; i < rows.size(); ++i)
    list += (i == 0 ? "\n  " : ",\n  ") + row_numbers(rows[i], verdicts.empty() ? nullptr : &verdicts[i]);
  return text + ",\n \"algorithms\": [" + list + "]}\n";
}

std::string numbers(const Request& request, const Sweep& sweep) {
  const auto seconds = [](double value) { return number(value); };
  std::string text = call_numbers(request);
  text += fmt::format(",\n \"sweep\": {}, \"values\": {}, \"bound\": {}", json_text(sweep.axis),
                      list_of(sweep.values, [](std::size_t value) { return std::to_string(value); }),
                      list_of(sweep.bounds, seconds));
  text +=
      ",\n \"chosen\": " + list_of(sweep.chosen, [&](std::size_t i) { return json_text(sweep.lines[i].algorithm); });
  std::string list;
  for (const Sweep::Line& line : sweep.lines)
    list += fmt::format(
        "{}{{\"algorithm\": {}, \"seconds\": {}, \"replayed\": {}}}", list.empty() ? "\n  " : ",\n  ",
        json_text(line.algorithm), list_of(line.cells, [](const Sweep::Cell& cell) { return number(cell.seconds); }),
        list_of(line.cells, [](const Sweep::Cell& cell) -> std::string { return cell.replayed ? "true" : "false"; }));
  return text + ",\n \"algorithms\": [" + list + "]}\n";
}

}  // namespace tutti::planning
