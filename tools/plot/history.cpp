#include "tools/plot/history.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <sstream>

#include "transports/core/text_file.hpp"
#include "tutti/status.hpp"

namespace tutti::plot {
namespace {

namespace fs = std::filesystem;

/// A csv file of numbers with named columns.
class Table {
 public:
  explicit Table(const fs::path& file) : file_(file) {
    constexpr std::size_t longest = std::size_t{256} << 20;
    const std::vector<std::string> lines = read_lines(file, longest);
    if (lines.empty()) throw Error(Code::invalid, file.string() + ": is empty");
    names_ = cells(lines[0]);
    for (std::size_t number = 2; number <= lines.size(); ++number) {
      const std::string& line = lines[number - 1];
      std::vector<double> row;
      for (const std::string& cell : cells(line)) {
        char* end = nullptr;
        // an empty cell means that the epoch had no validation
        row.push_back(cell.empty() ? std::numeric_limits<double>::quiet_NaN() : std::strtod(cell.c_str(), &end));
        if (!cell.empty() && *end != 0) refuse(number, "'" + cell + "' is no number");
      }
      if (row.size() != names_.size()) refuse(number, "expected " + std::to_string(names_.size()) + " numbers");
      rows_.push_back(std::move(row));
    }
  }

  const std::vector<std::string>& names() const { return names_; }
  std::size_t column(const std::string& name) const {
    const auto found = std::ranges::find(names_, name);
    if (found == names_.end()) throw Error(Code::invalid, file_.string() + ": has no column '" + name + "'");
    return static_cast<std::size_t>(found - names_.begin());
  }
  /// Returns points of the columns; omits values that are not finite.
  Points points(const std::string& x, std::size_t y, double factor = 1) const {
    Points found;
    const std::size_t at = column(x);
    for (const auto& row : rows_)
      if (std::isfinite(row[y])) found.emplace_back(row[at], factor * row[y]);
    return found;
  }

 private:
  [[noreturn]] void refuse(std::size_t line, const std::string& what) const {
    throw Error(Code::invalid, file_.string() + ":" + std::to_string(line) + ": " + what);
  }
  static std::vector<std::string> cells(const std::string& line) {
    std::vector<std::string> found;
    std::istringstream in(line);
    for (std::string cell; std::getline(in, cell, ',');) found.push_back(cell);
    return found;
  }

  fs::path file_;
  std::vector<std::string> names_;
  std::vector<std::vector<double>> rows_;
};

void read_held_out(const Table& table, History& history) {
  const std::size_t loss = table.column("held_out_loss");
  history.held_out_loss = table.points("epoch", loss);
  if (loss + 1 == table.names().size() || table.names()[loss + 1] == "samples_per_second") return;
  history.metric = table.names()[loss + 1];
  history.values = table.points("epoch", loss + 1, history.metric.ends_with("accuracy") ? 100 : 1);
}

}  // namespace

History read_history(const fs::path& run) {
  if (!fs::exists(run / "metrics.csv"))
    throw Error(Code::invalid, run.string() + ": has no metrics.csv; expected the folder of a run, as runs/NAME-TIME");
  const Table metrics(run / "metrics.csv");
  const std::string plain = run.string();
  History history{.name = plain.substr(0, plain.find_last_not_of('/') + 1)};
  history.train_loss = metrics.points("epoch", metrics.column("train_loss"));
  history.samples_per_second = metrics.points("epoch", metrics.column("samples_per_second"));
  std::erase_if(history.samples_per_second, [](const auto& point) { return point.second <= 0; });
  if (fs::exists(run / "ranks.csv")) {
    const Table ranks(run / "ranks.csv");
    history.ranks = ranks.points("epoch", ranks.column("ranks"));
  }
  if (history.train_loss.empty())
    throw Error(Code::invalid, (run / "metrics.csv").string() + ": no epoch has ended yet");
  const bool more = fs::exists(run / "validations.csv");
  read_held_out(more ? Table(run / "validations.csv") : metrics, history);
  return history;
}

}  // namespace tutti::plot
