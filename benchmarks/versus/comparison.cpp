// Medians and ratios, printed as a table, csv and json.
#include "benchmarks/versus/comparison.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

namespace tutti::bench {
namespace {

/// A number with the digits that matter: 0.153, 2.41, 36.2, 1204.
std::string short_number(double value) {
  return fmt::format("{:.{}f}", value, value < 1 ? 3 : value < 10 ? 2 : value < 1000 ? 1 : 0);
}

/// Rounded to three decimals, as in csv.
double rounded(double value) { return std::stod(fmt::format("{:.3f}", value)); }

/// A ratio for csv and JSON. A small one keeps three significant digits; otherwise it would become 0.
std::string ratio_number(double value) {
  return value < 0.1 ? fmt::format("{:.3g}", value) : fmt::format("{:.3f}", value);
}
double rounded_ratio(double value) { return std::stod(ratio_number(value)); }

/// A cell of csv, quoted if necessary.
std::string cell(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

/// The numbers, from 1, of the rounds that do not count.
std::vector<std::size_t> left_out(const Comparison& what) {
  std::vector<std::size_t> numbers;
  for (std::size_t r = 0; r < what.rounds(); ++r)
    if (!what.counts(r)) numbers.push_back(r + 1);
  return numbers;
}

/// The numbers, from 1, of the rounds that were not steady.
std::vector<std::size_t> unsteady(const Comparison& what) {
  std::vector<std::size_t> numbers;
  for (std::size_t r = 0; r < what.rounds(); ++r)
    if (!what.steady(r)) numbers.push_back(r + 1);
  return numbers;
}

std::size_t rounds_of(const Comparison& what) { return what.rounds() - left_out(what).size(); }

nlohmann::json flags_of(const Comparison& what) {
  nlohmann::json flags = nlohmann::json::array();
  for (const auto& [before, after] : what.flags) flags.push_back({std::round(before), std::round(after)});
  return flags;
}

void print_state(const Comparison& what, std::FILE* to) {
  if (what.flags.empty()) return;
  std::vector<double> flags;
  for (const auto& [before, after] : what.flags) flags.insert(flags.end(), {before, after});
  const Spread flag = spread(std::move(flags));
  fmt::print(to, "# a flag from core to core took {:.0f} ns one way ({:.0f} to {:.0f})", flag.median, flag.least,
             flag.most);
  const std::vector<std::size_t> numbers = left_out(what);
  if (!numbers.empty())
    fmt::print(to, "; left out, because the machine's state changed or was another one: round {}",
               fmt::join(numbers, ", "));
  else if (!unsteady(what).empty())
    fmt::print(to, "; the machine's state changed or was another one in {} of {} rounds: TOO MANY to leave them out",
               unsteady(what).size(), what.rounds());
  fmt::print(to, "\n");
}

void print_heading(const Comparison& what, std::FILE* to) {
  const Sweep& sweep = what.sweep;
  const std::string op = Case{.kind = sweep.kind}.reduces() ? " " + std::string(name(sweep.op.op)) : "";
  const std::string rounds = rounds_of(what) == 1 ? "1 round" : fmt::format("{} rounds", rounds_of(what));
  fmt::print(to, "# {}, {}{}, {} ranks, {} in shuffled order; time: median of the rounds (us), out of place{}\n",
             collective_name(sweep.kind), name(sweep.dtype), op, what.ranks, rounds,
             sweep.check ? "; every element of every result was right" : "; results were not checked");
  if (std::any_of(what.all.begin(), what.all.end(), [](const Series& one) { return one.against >= 0; }))
    fmt::print(
        to, "# ratio: peer / tutti within a round, median (least to most) of the rounds; above 1, tutti is faster\n");
  if (what.load > what.cores / 2.0)
    fmt::print(to,
               "# the machine was busy when this began (load {:.1f}, {} cores): on a quiet one figures differ less\n",
               what.load, what.cores);
  print_state(what, to);
  std::size_t width = 0;
  for (const Series& series : what.all) width = std::max(width, series.name.size());
  for (const Series& series : what.all) {
    fmt::print(to, "# {:<{}}  {}{}{}\n", series.name, width, series.version, series.settings.empty() ? "" : "; ",
               series.settings);
    for (const std::string& note : series.notes) fmt::print(to, "#   {}\n", note);
  }
}

int index_of(const Comparison& what, const Series& series) { return static_cast<int>(&series - what.all.data()); }

std::string ratio_text(const Spread& ratio) {
  return fmt::format("{:.2f} ({:.2f} to {:.2f})", ratio.median, ratio.least, ratio.most);
}

/// The indices of those series of tutti with which more than one peer is compared.
std::vector<int> compared_with_several(const Comparison& what) {
  std::vector<int> ours;
  for (int i = 0; i < static_cast<int>(what.all.size()); ++i)
    if (std::count_if(what.all.begin(), what.all.end(), [&](const Series& one) { return one.against == i; }) > 1)
      ours.push_back(i);
  return ours;
}

}  // namespace

Spread spread(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  const double median = values.size() % 2 ? values[half] : (values[half - 1] + values[half]) / 2;
  return {median, values.front(), values.back()};
}

std::vector<std::size_t> Comparison::sizes() const {
  std::vector<std::size_t> sizes;
  if (all.empty()) return sizes;
  for (const auto& [bytes, ignored] : all.front().rounds) sizes.push_back(bytes);
  return sizes;
}

std::size_t Comparison::rounds() const {
  return all.empty() || all[0].rounds.empty() ? 0 : all[0].rounds.begin()->second.size();
}

bool Comparison::steady(std::size_t round) const {
  if (round >= flags.size()) return true;
  const auto [least, most] = std::minmax(flags[round][0], flags[round][1]);
  return most <= least * flag_change && (flag_limit <= 0 || most <= flag_limit);
}

bool Comparison::counts(std::size_t round) const {
  std::size_t all_steady = 0;
  for (std::size_t r = 0; r < rounds(); ++r) all_steady += steady(r);
  return steady(round) || 2 * all_steady < rounds();
}

Spread Comparison::time(const Series& series, std::size_t bytes) const {
  std::vector<double> times;
  const auto& rounds = series.rounds.at(bytes);
  for (std::size_t r = 0; r < rounds.size(); ++r)
    if (counts(r)) times.push_back(rounds[r]);
  return spread(std::move(times));
}

Spread Comparison::extra(const Series& series, std::size_t bytes, std::size_t i) const {
  std::vector<double> values;
  const auto& rounds = series.extras.at(bytes);
  for (std::size_t r = 0; r < rounds.size(); ++r)
    if (counts(r)) values.push_back(rounds[r].at(i));
  return spread(std::move(values));
}

Best Comparison::best(int ours, std::size_t bytes) const {
  Best best;
  for (const Series& series : all)
    if (series.against == ours && (!best.peer || time(series, bytes).median < time(*best.peer, bytes).median))
      best.peer = &series;
  if (best.peer) best.ratio = ratio(*best.peer, bytes);
  return best;
}

Spread Comparison::ratio(const Series& peer, std::size_t bytes) const {
  const auto& theirs = peer.rounds.at(bytes);
  const auto& ours = all[static_cast<std::size_t>(peer.against)].rounds.at(bytes);
  std::vector<double> ratios;
  for (std::size_t r = 0; r < std::min(theirs.size(), ours.size()); ++r)
    if (counts(r)) ratios.push_back(theirs[r] / ours[r]);
  return spread(std::move(ratios));
}

double Comparison::bus_bandwidth(const Series& series, std::size_t bytes) const {
  const double us = time(series, bytes).median;
  const double factor = Case{.kind = sweep.kind, .ranks = ranks}.bus_factor();
  return us > 0 ? static_cast<double>(bytes) / us * 1e-3 * factor : 0;
}

Plot plot_of(const Comparison& what) {
  const Sweep& sweep = what.sweep;
  const bool reduces = Case{.kind = sweep.kind}.reduces();
  Plot plot{.title = fmt::format("{} of {}{}, {} ranks", collective_name(sweep.kind), name(sweep.dtype),
                                 reduces ? fmt::format(" ({})", name(sweep.op.op)) : "", what.ranks),
            .sizes = what.sizes(),
            .curves = {}};
  for (const Series& series : what.all) {
    plot.curves.push_back({series.name, series.version, series.settings, {}});
    for (const std::size_t bytes : plot.sizes)
      if (const double gb_s = what.bus_bandwidth(series, bytes); gb_s > 0)
        plot.curves.back().points.push_back({bytes, gb_s});
  }
  return plot;
}

namespace {

void print_extras(const Comparison& what, std::FILE* to) {
  const std::vector<std::string> names = extra_names(what.sweep);
  if (names.empty()) return;
  std::size_t width = 14;
  for (const Series& series : what.all) width = std::max(width, series.name.size());
  fmt::print(to, "# {}\n# {:>10}  {:<{}}  {:>10}", mode_text(what.sweep), "size (B)", "implementation", width, "time");
  for (const std::string& name : names) fmt::print(to, "  {:>15}", name);
  fmt::print(to, "\n");
  for (const std::size_t bytes : what.sizes())
    for (const Series& series : what.all) {
      fmt::print(to, "  {:>10}  {:<{}}  {:>10}", bytes, series.name, width,
                 short_number(what.time(series, bytes).median));
      for (std::size_t i = 0; i < names.size(); ++i)
        fmt::print(to, "  {:>15}", short_number(what.extra(series, bytes, i).median));
      fmt::print(to, "\n");
    }
}

}  // namespace

void print_table(const Comparison& what, std::FILE* to) {
  print_heading(what, to);
  const auto width = [](const Series& series) { return std::max<std::size_t>(series.name.size(), 9); };
  const std::vector<int> ours = compared_with_several(what);
  const auto name = [&](int i) { return what.all[static_cast<std::size_t>(i)].name; };
  std::size_t best_width = 20;
  for (const Series& series : what.all) best_width = std::max(best_width, 20 + series.name.size());
  const auto print_line = [&](std::string line) {
    line.erase(line.find_last_not_of(' ') + 1);
    fmt::print(to, "{}\n", line);
  };
  std::string head = fmt::format("# {:>10}", "size (B)");
  for (const Series& series : what.all)
    head += fmt::format("  {:>{}}{}", series.name, width(series),
                        series.against < 0 ? "" : fmt::format("  {:<20}", "ratio"));
  for (const int i : ours) head += fmt::format("  {:<{}}", "best / " + name(i), best_width);
  print_line(head);
  for (const std::size_t bytes : what.sizes()) {
    std::string line = fmt::format("  {:>10}", bytes);
    for (const Series& series : what.all) {
      line += fmt::format("  {:>{}}", short_number(what.time(series, bytes).median), width(series));
      if (series.against < 0) continue;
      line += fmt::format("  {:<20}", ratio_text(what.ratio(series, bytes)));
    }
    for (const int i : ours) {
      const Best best = what.best(i, bytes);
      line += fmt::format("  {:<{}}", fmt::format("{} {}", ratio_text(best.ratio), best.peer->name), best_width);
    }
    print_line(line);
  }
  print_extras(what, to);
}

void print_csv(const Comparison& what, std::FILE* to) {
  fmt::print(to,
             "impl,version,settings,op,dtype,bytes,ranks,rounds,median_us,least_us,most_us,busbw_gb_s,against,"
             "ratio,ratio_min,ratio_max,best,best_ratio,best_ratio_min,best_ratio_max");
  const std::vector<std::string> names = extra_names(what.sweep);
  for (const std::string& name : names) fmt::print(to, ",{}", name);
  fmt::print(to, "\n");
  const auto ratio_cells = [&](const std::string& whose, const Spread& ratio) {
    fmt::print(to, ",{},{},{},{}", cell(whose), ratio_number(ratio.median), ratio_number(ratio.least),
               ratio_number(ratio.most));
  };
  for (const Series& series : what.all)
    for (const std::size_t bytes : what.sizes()) {
      const Spread time = what.time(series, bytes);
      fmt::print(to, "{},{},{},{},{},{},{},{},{:.3f},{:.3f},{:.3f},{:.5g}", cell(series.name), cell(series.version),
                 cell(series.settings), collective_name(what.sweep.kind), name(what.sweep.dtype), bytes, what.ranks,
                 rounds_of(what), time.median, time.least, time.most, what.bus_bandwidth(series, bytes));
      const Best best = what.best(index_of(what, series), bytes);
      if (series.against >= 0)
        ratio_cells(what.all[static_cast<std::size_t>(series.against)].name, what.ratio(series, bytes));
      else
        fmt::print(to, ",,,,");
      if (best.peer)
        ratio_cells(best.peer->name, best.ratio);
      else
        fmt::print(to, ",,,,");
      for (std::size_t i = 0; i < names.size(); ++i) fmt::print(to, ",{:.3f}", what.extra(series, bytes, i).median);
      fmt::print(to, "\n");
    }
}

void print_json(const Comparison& what, std::FILE* to) {
  nlohmann::ordered_json document = {{"op", collective_name(what.sweep.kind)},
                                     {"dtype", name(what.sweep.dtype)},
                                     {"ranks", what.ranks},
                                     {"rounds", rounds_of(what)},
                                     {"checked", what.sweep.check},
                                     {"flag_ns", flags_of(what)},
                                     {"rounds_left_out", left_out(what)},
                                     {"rounds_unsteady", unsteady(what)},
                                     {"implementations", nlohmann::json::array()}};
  const std::vector<std::string> names = extra_names(what.sweep);
  for (const Series& series : what.all) {
    nlohmann::ordered_json entry = {{"impl", series.name}, {"version", series.version}, {"settings", series.settings}};
    entry["against"] = nullptr;
    if (series.against >= 0) entry["against"] = what.all[static_cast<std::size_t>(series.against)].name;
    if (!series.notes.empty()) entry["explained"] = series.notes;
    entry["rows"] = nlohmann::json::array();
    for (const std::size_t bytes : what.sizes()) {
      const Spread time = what.time(series, bytes);
      nlohmann::ordered_json row = {
          {"bytes", bytes},
          {"median_us", rounded(time.median)},
          {"least_us", rounded(time.least)},
          {"most_us", rounded(time.most)},
          {"busbw_gb_s", std::stod(fmt::format("{:.5g}", what.bus_bandwidth(series, bytes)))}};
      if (series.against >= 0) {
        const Spread ratio = what.ratio(series, bytes);
        row["ratio"] = rounded_ratio(ratio.median);
        row["ratio_min"] = rounded_ratio(ratio.least);
        row["ratio_max"] = rounded_ratio(ratio.most);
      } else if (const Best best = what.best(index_of(what, series), bytes); best.peer) {
        row["best"] = {{"impl", best.peer->name},
                       {"median_us", rounded(what.time(*best.peer, bytes).median)},
                       {"ratio", rounded_ratio(best.ratio.median)},
                       {"ratio_min", rounded_ratio(best.ratio.least)},
                       {"ratio_max", rounded_ratio(best.ratio.most)}};
      }
      for (std::size_t i = 0; i < names.size(); ++i) row[names[i]] = rounded(what.extra(series, bytes, i).median);
      entry["rows"].push_back(row);
    }
    document["implementations"].push_back(entry);
  }
  fmt::print(to, "{}\n", document.dump(1));
}

}  // namespace tutti::bench
