// `tutti plan`: shows, counts, checks and costs the schedule of a collective, which is the one that communicators run.
#include "tools/command.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <span>

#include "tools/plan/numbers.hpp"
#include "tools/plan/page.hpp"
#include "tools/plan/pictures.hpp"
#include "tools/plan/request.hpp"
#include "tools/plan/sweep.hpp"
#include "tutti/status.hpp"

namespace tutti::tools {
extern const Command plan_command;

namespace {

using namespace planning;

/// Writes the text that make() returns to the file `path`; does nothing if `path` is empty. Returns true if `path` is
/// "-", which is stdout: nothing else may be printed then.
template <typename Make>
bool write(const std::string& path, const Make& make) {
  if (path.empty()) return false;
  const std::string text = make();
  if (path == "-") return fmt::print("{}", text), true;
  std::ofstream file(path);
  file << text << std::flush;
  if (!file) throw Error(Code::resource, path + ": cannot be written");
  return false;
}

template <typename... Found>
bool write_numbers(const Request& request, const Found&... found) {
  return write(request.json_file, [&] { return numbers(request, found...); });
}

int show_sweep(const Request& request) {
  const Sweep found = sweep(request);
  const bool is_drawn = write(request.svg_file, [&] { return sweep_picture(request, found); });
  if (!write_numbers(request, found) && !is_drawn) print_sweep(request, found);
  return 0;
}

int show_all(const Request& request) {
  if (!request.svg_file.empty())
    throw Error(Code::invalid, "--svg draws one algorithm's schedule: name it by --algorithm, or add --sweep bytes");
  Ranking ranking = rank_all(request);
  weigh_all(ranking, request);
  std::vector<Verdict> verdicts;
  for (const Row& row : ranking.rows)
    if (request.check) verdicts.push_back(verdict_of(row, request));
  if (!write_numbers(request, ranking.rows, verdicts)) print_ranking(request, ranking, verdicts);
  return std::ranges::count(verdicts, Verdict::Outcome::wrong, &Verdict::outcome) > 0 ? 1 : 0;
}

int show_one(const Request& request) {
  Ranking ranking;
  Row row;
  if (request.algorithm == "chosen") {
    ranking = rank_all(request);
    row = ranking.chosen();
  } else {
    row = row_of(request, *find_algorithm(request.kind, request.algorithm));
  }
  if (request.rank || request.all_ranks) {
    print_rounds(request, row);
    return 0;
  }
  weigh(row, request);
  const Verdict verdict = verdict_of(row, request);
  const bool is_drawn = write(request.svg_file, [&] { return space_time(request, row); });
  if (!write_numbers(request, std::span(&row, 1), std::span(&verdict, 1)) && !is_drawn)
    print_page(request, row, verdict, row.chosen ? &ranking : nullptr);
  return verdict.outcome == Verdict::Outcome::wrong ? 1 : 0;
}

int run(const std::vector<std::string>& arguments) {
  const Request request = parse_request(arguments);
  if (!request.note.empty()) fmt::print(stderr, "tutti plan: {}\n", request.note);
  if (!request.sweep.empty()) return show_sweep(request);
  return request.algorithm == "all" ? show_all(request) : show_one(request);
}

}  // namespace

const Command plan_command = {"show, count, check and cost the schedule of a collective", run};

}  // namespace tutti::tools
