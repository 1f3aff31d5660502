// Prints and parses rows as csv, with the standard library only.
#include "tools/bench/lines.hpp"

#include <charconv>
#include <sstream>

namespace tutti::bench {
namespace {

template <class T>
bool read(const std::string& cell, T& value) {
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  return error == std::errc{} && end == cell.data() + cell.size();
}

}  // namespace

void print_line_head(std::FILE* to, const Sweep& sweep) {
  std::fputs("impl,op,dtype,bytes,ranks,min_us,median_us,p99_us,ok", to);
  for (const std::string& extra : extra_names(sweep)) std::fprintf(to, ",%s", extra.c_str());
  std::fputs("\n", to);
}

void print_line(std::FILE* to, std::string_view implementation, const Row& row, bool checked) {
  const Result& result = row.out_of_place;
  const bool right = result.wrong == 0 && row.in_place.wrong == 0;
  std::fprintf(to, "%s,%s,%s,%zu,%d,%.3f,%.3f,%.3f,%s", std::string(implementation).c_str(),
               std::string(collective_name(row.what.kind)).c_str(), std::string(name(row.what.dtype)).c_str(),
               row.what.bytes(), row.what.ranks, result.min * 1e6, result.median * 1e6, result.p99 * 1e6,
               checked ? (right ? "yes" : "no") : "unchecked");
  for (const double extra : row.extras) std::fprintf(to, ",%.3f", extra);
  std::fputs("\n", to);
}

std::vector<Line> parse_csv(const std::string& text) {
  std::vector<Line> lines;
  std::istringstream stream(text);
  for (std::string row; std::getline(stream, row);) {
    std::vector<std::string> cells;
    std::istringstream parts(row);
    for (std::string cell; std::getline(parts, cell, ',');) cells.push_back(cell);
    if (cells.size() < 9) continue;
    Line line{cells[0], cells[1], cells[2], 0, 0, 0, 0, 0, std::vector<double>(cells.size() - 9), cells[8] != "no"};
    bool numbers = true;
    for (std::size_t i = 9; i < cells.size(); ++i) numbers = numbers && read(cells[i], line.extras[i - 9]);
    if (numbers && read(cells[3], line.bytes) && read(cells[4], line.ranks) && read(cells[5], line.min_us) &&
        read(cells[6], line.median_us) && read(cells[7], line.p99_us))
      lines.push_back(line);
  }
  return lines;
}

}  // namespace tutti::bench
