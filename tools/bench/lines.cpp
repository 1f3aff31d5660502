// Rows as csv, there and back, with nothing but the standard library.
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

void print_line_head(std::FILE* to) { std::fputs("impl,op,dtype,bytes,ranks,min_us,median_us,p99_us,ok\n", to); }

void print_line(std::FILE* to, std::string_view implementation, const Row& row, bool checked) {
  const Result& result = row.out_of_place;
  const bool right = result.wrong == 0 && row.in_place.wrong == 0;
  std::fprintf(to, "%s,%s,%s,%zu,%d,%.3f,%.3f,%.3f,%s\n", std::string(implementation).c_str(),
               std::string(collective_name(row.what.kind)).c_str(), std::string(name(row.what.dtype)).c_str(),
               row.what.bytes(), row.what.ranks, result.min * 1e6, result.median * 1e6, result.p99 * 1e6,
               checked ? (right ? "yes" : "no") : "unchecked");
}

std::vector<Line> parse_csv(const std::string& text) {
  std::vector<Line> lines;
  std::istringstream stream(text);
  for (std::string row; std::getline(stream, row);) {
    std::vector<std::string> cells;
    std::istringstream parts(row);
    for (std::string cell; std::getline(parts, cell, ',');) cells.push_back(cell);
    if (cells.size() != 9) continue;
    Line line{cells[0], cells[1], cells[2], 0, 0, 0, 0, 0, cells[8] != "no"};
    if (read(cells[3], line.bytes) && read(cells[4], line.ranks) && read(cells[5], line.min_us) &&
        read(cells[6], line.median_us) && read(cells[7], line.p99_us))
      lines.push_back(line);
  }
  return lines;
}

}  // namespace tutti::bench
