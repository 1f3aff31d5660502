// The three output formats of a benchmark.
#include "tools/bench/report.hpp"

#include <fmt/format.h>

#include <memory>

#include "tools/bench/lines.hpp"

namespace tutti::bench {
namespace {

double bandwidth(const Row& row, const Result& result) {
  return result.median > 0 ? static_cast<double>(row.what.bytes()) / result.median * 1e-9 : 0;
}

std::string columns(const Row& row, const Result& result, bool present, bool check) {
  if (!present) return fmt::format(" {:>9} {:>7} {:>7} {:>6}", "-", "-", "-", "-");
  const double algorithm = bandwidth(row, result);
  const double us = result.median * 1e6;
  return fmt::format(" {:>9} {:>7.2f} {:>7.2f} {:>6}",
                     us < 1000 ? fmt::format("{:.2f}", us) : fmt::format("{:.0f}", us), algorithm,
                     algorithm * row.what.bus_factor(), check ? std::to_string(result.wrong) : "N/A");
}

std::string json(const Row& row, const Result& result) {
  const double algorithm = bandwidth(row, result);
  return fmt::format(
      R"({{"min_us": {:.3f}, "median_us": {:.3f}, "p99_us": {:.3f}, "iterations": {}, "algbw_gb_s": {:.4f}, "busbw_gb_s": {:.4f}, "wrong": {}}})",
      result.min * 1e6, result.median * 1e6, result.p99 * 1e6, result.iterations, algorithm,
      algorithm * row.what.bus_factor(), result.wrong);
}

std::string op_name(const Case& what) { return what.reduces() ? std::string(name(what.op.op)) : "none"; }

int root_of(const Case& what) {
  const bool rooted = what.kind == Kind::broadcast || what.kind == Kind::reduce || what.kind == Kind::gather ||
                      what.kind == Kind::scatter;
  return rooted ? what.root : -1;
}

}  // namespace

Report::Report(std::string implementation, const Request& request, int ranks, std::FILE* to)
    : implementation_(std::move(implementation)),
      format_(request.format),
      ranks_(ranks),
      check_(request.check),
      extras_(extra_names(request)),
      to_(to) {
  if (format_ == "human") {
    fmt::print(to_, "# {} {}, {} ranks; time: median of the iterations, each as long as its slowest rank{}{}\n",
               implementation_, collective_name(request.kind), ranks_,
               request.touch ? "; inputs rewritten and outputs read between iterations" : "; buffers left untouched",
               request.memory == "ordinary" ? "" : "; buffers: " + request.memory);
  }
  if (format_ == "human" && !extras_.empty()) fmt::print(to_, "# {}\n", mode_text(request));
  if (format_ == "csv") print_line_head(to_, request);
  head();
}

void Report::head() {
  if (format_ == "json") fmt::print(to_, "[");
  if (format_ != "human") return;
  fmt::print(to_, "# {:>10} {:>12} {:>6} {:>7} {:>5} {:^33} {:^33}\n", "", "", "", "", "", "out-of-place", "in-place");
  fmt::print(to_, "# {:>10} {:>12} {:>6} {:>7} {:>5}", "size", "count", "type", "redop", "root");
  for (int i = 0; i < 2; ++i) fmt::print(to_, " {:>9} {:>7} {:>7} {:>6}", "time", "algbw", "busbw", "#wrong");
  for (const std::string& extra : extras_) fmt::print(to_, " {:>16}", extra);
  fmt::print(to_, "\n# {:>10} {:>12} {:>6} {:>7} {:>5}", "(B)", "(elements)", "", "", "");
  for (int i = 0; i < 2; ++i) fmt::print(to_, " {:>9} {:>7} {:>7} {:>6}", "(us)", "(GB/s)", "(GB/s)", "");
  fmt::print(to_, "\n");
}

void Report::add(const Row& row) {
  const Case& what = row.what;
  const std::uint64_t wrong = row.out_of_place.wrong + (row.has_in_place ? row.in_place.wrong : 0);
  wrong_ += wrong;
  for (const Result* result : {&row.out_of_place, row.has_in_place ? &row.in_place : nullptr}) {
    if (!result) continue;
    bus_total_ += bandwidth(row, *result) * what.bus_factor();
    ++bus_count_;
  }
  const std::string_view collective = collective_name(what.kind);
  std::string extras;
  for (std::size_t i = 0; i < row.extras.size(); ++i)
    extras += format_ == "json" ? fmt::format(", \"{}\": {:.3f}", extras_[i], row.extras[i])
                                : fmt::format(" {:>16.{}f}", row.extras[i], row.extras[i] < 100 ? 2 : 0);
  if (format_ == "csv") {
    print_line(to_, implementation_, row, check_);
  } else if (format_ == "json") {
    fmt::print(
        to_,
        "{}\n  {{\"impl\": \"{}\", \"op\": \"{}\", \"dtype\": \"{}\", \"redop\": \"{}\", \"bytes\": {}, \"count\": {}, "
        "\"ranks\": {}, \"checked\": {},\n   \"out_of_place\": {},\n   \"in_place\": {}{}}}",
        rows_ ? "," : "", implementation_, collective, name(what.dtype), op_name(what), what.bytes(), what.count,
        ranks_, check_, json(row, row.out_of_place), row.has_in_place ? json(row, row.in_place) : "null", extras);
  } else {
    fmt::print(to_, "  {:>10} {:>12} {:>6} {:>7} {:>5}{}{}{}\n", what.bytes(), what.count, name(what.dtype),
               op_name(what), root_of(what), columns(row, row.out_of_place, true, check_),
               columns(row, row.in_place, row.has_in_place, check_), extras);
  }
  ++rows_;
  std::fflush(to_);
}

void Report::finish() {
  if (format_ == "json") fmt::print(to_, "\n]\n");
  if (format_ == "human") {
    fmt::print(to_, "# {}{}\n",
               !check_      ? "results were not checked"
               : wrong_ > 0 ? fmt::format("{} WRONG ELEMENTS", wrong_)
                            : "every element of every result was right",
               !extras_.empty() ? std::string()
                                : fmt::format("; average bus bandwidth {:.3f} GB/s",
                                              bus_count_ ? bus_total_ / static_cast<double>(bus_count_) : 0));
  }
  std::fflush(to_);
}

int measure_and_print(Implementation& implementation, Board& board, const Request& request) {
  struct Printer {
    std::unique_ptr<Report> report;  // only on rank 0
    std::uint64_t wrong = 0;
  } printer;
  if (implementation.rank() == 0)
    printer.report = std::make_unique<Report>(implementation.name(), request, implementation.ranks(), stdout);
  const auto each = [](const Row& row, void* context) {
    auto& to = *static_cast<Printer*>(context);
    to.wrong += row.out_of_place.wrong + row.in_place.wrong;
    if (to.report) to.report->add(row);
  };
  measure(implementation, board, request, each, &printer);
  if (printer.report) printer.report->finish();
  board.barrier();
  return printer.wrong == 0 ? 0 : 1;
}

}  // namespace tutti::bench
