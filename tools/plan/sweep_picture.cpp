// A sweep as a picture: cost over bytes, ranks or hosts.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>

#include "tools/plan/page.hpp"
#include "tools/plan/pictures.hpp"
#include "tools/plan/text.hpp"
#include "tools/plot/axis.hpp"
#include "tools/plot/svg.hpp"

namespace tutti::planning {
namespace {

constexpr double plot_left = 76, plot_top = 58, plot_width = 620, plot_height = 400, name_gap = 16;

using Text = std::back_insert_iterator<std::string>;

struct Scales {
  plot::Axis values, times;
  double x(std::size_t value) const { return plot_left + plot_width * values.at(static_cast<double>(value)); }
  double y(double seconds) const { return plot_top + plot_height * (1 - times.at(seconds)); }
};

Scales scales_of(const Sweep& sweep) {
  double least = std::numeric_limits<double>::infinity(), most = 0;
  const auto take = [&](double seconds) {
    if (seconds <= 0) return;  // the cost of a single rank; a logarithmic axis has no zero
    least = std::min(least, seconds);
    most = std::max(most, seconds);
  };
  for (const Sweep::Line& line : sweep.lines)
    for (const Sweep::Cell& cell : line.cells)
      if (cell.seconds) take(*cell.seconds);
  for (const double bound : sweep.bounds) take(bound);
  if (most == 0) least = most = 1e-6;
  return {
      plot::Axis::powers_of_two(static_cast<double>(sweep.values.front()), static_cast<double>(sweep.values.back()), 9),
      plot::Axis::logarithmic(least, most)};
}

void draw_grid(const Sweep& sweep, const Scales& scales, Text out) {
  const double bottom = plot_top + plot_height;
  for (const plot::Tick& tick : scales.values.ticks()) {
    const double x = scales.x(static_cast<std::size_t>(tick.value));
    fmt::format_to(out,
                   "<path d=\"M{0:.1f} {1:g}V{2:g}\" stroke=\"#808080\" stroke-opacity=\"0.25\"/><text x=\"{0:.1f}\" "
                   "y=\"{3:g}\" text-anchor=\"middle\">{4}</text>\n",
                   x, plot_top, bottom, bottom + 18, value_text(sweep, static_cast<std::size_t>(tick.value)));
  }
  for (const plot::Tick& tick : scales.times.ticks()) {
    const double y = scales.y(tick.value);
    fmt::format_to(out,
                   "<path d=\"M{0:g} {1:.1f}h{2:g}\" stroke=\"#808080\" stroke-opacity=\"0.25\"/><text x=\"{3:g}\" "
                   "y=\"{4:.1f}\" text-anchor=\"end\">{5}</text>\n",
                   plot_left, y, plot_width, plot_left - 6, y + 4, time_text(tick.value));
  }
  fmt::format_to(out,
                 "<text x=\"{:g}\" y=\"{:g}\" text-anchor=\"middle\">{}</text>\n<text transform=\"translate(16 {:g}) "
                 "rotate(-90)\" text-anchor=\"middle\">{}</text>\n",
                 plot_left + plot_width / 2, bottom + 40, sweep.axis, plot_top + plot_height / 2,
                 sweep.by_replay ? "time, by replay" : "time, estimated");
}

/// A point of one line, at a value for which the line has a cost.
struct Point {
  std::size_t value;  // index of the value
  double x, y;
};

std::vector<Point> points_of(const Sweep& sweep, const Sweep::Line& line, const Scales& scales) {
  std::vector<Point> points;
  for (std::size_t i = 0; i < sweep.values.size(); ++i)
    if (line.cells[i].seconds && *line.cells[i].seconds > 0)
      points.push_back({i, scales.x(sweep.values[i]), scales.y(*line.cells[i].seconds)});
  return points;
}

std::string path_of(const std::vector<Point>& points) {
  std::string path;
  for (const Point& point : points)
    fmt::format_to(Text(path), "{}{:.1f} {:.1f}", path.empty() ? "M" : "L", point.x, point.y);
  return path;
}

/// Draws one algorithm: a thin line, with a large dot at each value for which the algorithm is chosen.
void draw_line(const Sweep& sweep, std::size_t index, const std::vector<Point>& points, Text out) {
  const char* const colour = plot::colours_on_any[index % plot::colours_on_any.size()];
  fmt::format_to(out, "<path fill=\"none\" stroke=\"{}\" stroke-width=\"1.5\"{} d=\"{}\"/>\n", colour,
                 index < plot::colours_on_any.size() ? "" : " stroke-dasharray=\"6 3\"", path_of(points));
  for (std::size_t i = 0; i < points.size(); ++i) {
    const bool chosen = sweep.chosen[points[i].value] == index;
    fmt::format_to(out, "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\" fill=\"{}\"/>\n", points[i].x, points[i].y,
                   chosen ? 5 : 2, colour);
    const bool goes_on = chosen && i + 1 < points.size() && sweep.chosen[points[i + 1].value] == index;
    if (goes_on)
      fmt::format_to(out, "<path stroke=\"{}\" stroke-width=\"4\" d=\"{}\"/>\n", colour,
                     path_of({points[i], points[i + 1]}));
  }
}

void draw_bound(const Sweep& sweep, const Scales& scales, Text out) {
  std::vector<Point> points;
  for (std::size_t i = 0; i < sweep.values.size(); ++i)
    if (sweep.bounds[i] > 0) points.push_back({i, scales.x(sweep.values[i]), scales.y(sweep.bounds[i])});
  fmt::format_to(out, "<path fill=\"none\" stroke=\"{}\" stroke-dasharray=\"2 3\" d=\"{}\"/>\n", plot::ink_on_any,
                 path_of(points));
}

/// Draws the names at the lines' ends.
void draw_names(const std::vector<std::string>& names, const std::vector<Point>& ends, Text out) {
  std::vector<double> wanted;
  for (const Point& end : ends) wanted.push_back(end.y);
  const std::vector<double> heights = plot::moved_apart(wanted, plot_top, plot_top + plot_height, name_gap);
  for (std::size_t i = 0; i < names.size(); ++i) {
    const bool is_bound = i + 1 == names.size();
    const char* const colour = is_bound ? plot::ink_on_any : plot::colours_on_any[i % plot::colours_on_any.size()];
    fmt::format_to(out,
                   "<path stroke=\"{0}\" stroke-width=\"0.5\" d=\"M{1:.1f} {2:.1f}L{3:g} {4:.1f}\"/><text x=\"{5:g}\" "
                   "y=\"{6:.1f}\" fill=\"{0}\">{7}</text>\n",
                   colour, ends[i].x + 4, ends[i].y, plot_left + plot_width + 16, heights[i],
                   plot_left + plot_width + 20, heights[i] + 4, plot::escaped(names[i]));
  }
}

}  // namespace

std::string sweep_picture(const Request& request, const Sweep& sweep) {
  const Scales scales = scales_of(sweep);
  const std::string what = sweep_title(request);
  std::string svg;
  const Text out(svg);
  fmt::format_to(
      out,
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:g} "
      "{1:g}\" "
      "width=\"{0:g}\" height=\"{1:g}\" font-family=\"sans-serif\" font-size=\"12\" fill=\"{2}\">\n<title>{3}</title>\n"
      "<text x=\"{4:g}\" y=\"24\" font-size=\"15\">{3}</text>\n<text x=\"{4:g}\" y=\"43\">thick: the one that is "
      "chosen</text>\n",
      plot_left + plot_width + 180, plot_top + plot_height + 52, plot::ink_on_any, plot::escaped(what), plot_left);
  draw_grid(sweep, scales, out);
  draw_bound(sweep, scales, out);
  std::vector<std::string> names;
  std::vector<Point> ends;
  for (std::size_t i = 0; i < sweep.lines.size(); ++i) {
    const std::vector<Point> points = points_of(sweep, sweep.lines[i], scales);
    draw_line(sweep, i, points, out);
    names.emplace_back(sweep.lines[i].algorithm);
    ends.push_back(points.empty() ? Point{0, plot_left + plot_width, plot_top} : points.back());
  }
  names.emplace_back("lower bound");
  ends.push_back({0, scales.x(sweep.values.back()), scales.y(std::max(sweep.bounds.back(), 1e-12))});
  draw_names(names, ends, out);
  return svg + "</svg>\n";
}

}  // namespace tutti::planning
