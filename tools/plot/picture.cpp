#include "tools/plot/picture.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "tools/plot/axis.hpp"
#include "tools/plot/svg.hpp"

namespace tutti::plot {
namespace {

constexpr double panel_width = 340, panel_height = 260, gap = 64, left = 64, top = 44, legend_line = 20;

/// Colours that colour-blind readers can tell apart (Okabe and Ito).
constexpr std::array<const char*, 7> colours = {"#0072B2", "#D55E00", "#009E73", "#CC79A7",
                                                "#E69F00", "#56B4E9", "#000000"};

struct Curve {
  Points points;
  std::size_t run;
  bool dashed = false;
  bool covered = false;  ///< a later curve has the same points, so this one is drawn wider
};

struct Panel {
  std::string title;
  std::vector<Curve> curves;
  Axis x, y;
};

using Out = std::back_insert_iterator<std::string>;

/// Returns the minimum and maximum of a coordinate over all curves.
template <class Coordinate>
std::pair<double, double> range_of(const std::vector<Curve>& curves, Coordinate coordinate) {
  double least = 0, most = 0;
  bool any = false;
  for (const Curve& curve : curves)
    for (const auto& point : curve.points) {
      const double value = coordinate(point);
      least = any ? std::min(least, value) : value;
      most = any ? std::max(most, value) : value;
      any = true;
    }
  return {least, most};
}

enum class Scale { from_zero, free, wide };

Panel panel_of(std::string title, std::vector<Curve> curves, Scale scale) {
  const auto [first, last] = range_of(curves, [](const auto& point) { return point.first; });
  const auto [least, most] = range_of(curves, [](const auto& point) { return point.second; });
  for (auto curve = curves.begin(); curve != curves.end(); ++curve)
    curve->covered =
        std::any_of(curve + 1, curves.end(), [&](const Curve& one) { return one.points == curve->points; });
  Panel panel{.title = std::move(title), .curves = std::move(curves), .x = {}, .y = {}};
  panel.x = Axis::linear(std::min(first, 1.0) < 1 ? 0 : first, std::max(last, first + 1));
  const bool logarithmic = scale == Scale::wide && least > 0 && most / least > 10;
  panel.y = logarithmic ? Axis::logarithmic(least, most)
                        : Axis::linear(scale == Scale::from_zero ? std::min(least, 0.0) : least, most);
  return panel;
}

void draw_axes(const Panel& panel, Out& out) {
  fmt::format_to(out, "<text x=\"0\" y=\"-14\" font-size=\"14\" font-weight=\"bold\">{}</text>\n",
                 escaped(panel.title));
  for (const Tick& tick : panel.y.ticks()) {
    const double y = panel_height * (1 - panel.y.at(tick.value));
    fmt::format_to(out, "<line x1=\"0\" y1=\"{0:.1f}\" x2=\"{1}\" y2=\"{0:.1f}\" stroke=\"#ddd\"/>\n", y, panel_width);
    fmt::format_to(out, "<text x=\"-8\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n", y + 4, tick.label);
  }
  for (const Tick& tick : panel.x.ticks()) {
    const double x = panel_width * panel.x.at(tick.value);
    fmt::format_to(out, "<line x1=\"{0:.1f}\" y1=\"{1}\" x2=\"{0:.1f}\" y2=\"{2}\" stroke=\"#888\"/>\n", x,
                   panel_height, panel_height + 4);
    fmt::format_to(out, "<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n", x, panel_height + 18,
                   tick.label);
  }
  fmt::format_to(out, "<line x1=\"0\" y1=\"{0}\" x2=\"{1}\" y2=\"{0}\" stroke=\"#888\"/>\n", panel_height, panel_width);
  fmt::format_to(out, "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">epoch</text>\n", panel_width / 2,
                 panel_height + 36);
}

void draw_curve(const Panel& panel, const Curve& curve, Out& out) {
  const char* colour = colours[curve.run % colours.size()];
  std::string line;
  double x = 0, y = 0;
  for (const auto& [epoch, value] : curve.points) {
    x = panel_width * panel.x.at(epoch);
    y = panel_height * (1 - panel.y.at(value));
    line += fmt::format("{}{:.1f},{:.1f}", line.empty() ? "" : " ", x, y);
  }
  fmt::format_to(out,
                 "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{}\" stroke-linejoin=\"round\""
                 "{}/>\n",
                 line, colour, curve.covered ? "5" : "1.8", curve.dashed ? " stroke-dasharray=\"5 3\"" : "");
  if (!curve.points.empty())  // marks the end; a run of one epoch has nothing but this point
    fmt::format_to(out, "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.6\" fill=\"{}\"/>\n", x, y, colour);
}

/// The times at which an elastic run lost ranks.
std::vector<double> losses_of(const History& run) {
  std::vector<double> times;
  for (std::size_t i = 1; i < run.ranks.size(); ++i)
    if (run.ranks[i].second < run.ranks[i - 1].second) times.push_back(run.ranks[i].first);
  return times;
}

void draw_losses(const Panel& panel, std::span<const History> runs, Out& out) {
  for (std::size_t i = 0; i < runs.size(); ++i)
    for (const double time : losses_of(runs[i]))
      fmt::format_to(out,
                     "<line x1=\"{0:.1f}\" y1=\"0\" x2=\"{0:.1f}\" y2=\"{1}\" stroke=\"{2}\" stroke-opacity=\"0.45\" "
                     "stroke-dasharray=\"2 3\"/>\n",
                     panel_width * panel.x.at(time), panel_height, colours[i % colours.size()]);
}

/// Returns a line such as "runs/digits: best accuracy 98.61 % in epoch 37, 5.3k samples/s".
std::string summary(const History& run) {
  double seconds = 0;  // sum of the seconds per sample of each epoch; all epochs have equally many samples
  for (const auto& point : run.samples_per_second) seconds += 1 / point.second;
  const double speed = static_cast<double>(run.samples_per_second.size()) / seconds;
  std::string text = run.name + ": ";
  const bool accuracy = run.metric.ends_with("accuracy");
  const Points& values = run.metric.empty() ? run.held_out_loss : run.values;
  if (!values.empty()) {
    const auto smaller = [](const auto& a, const auto& b) { return a.second < b.second; };
    const auto best = accuracy ? std::ranges::max_element(values, smaller) : std::ranges::min_element(values, smaller);
    const std::string value = accuracy ? fmt::format("{:.2f} %", best->second) : fmt::format("{:.4g}", best->second);
    text += fmt::format("best {} {} in epoch {:.4g}, ", run.metric.empty() ? "held-out loss" : run.metric, value,
                        best->first);
  }
  text += short_number(speed, 0) + " samples/s";
  const std::size_t lost = losses_of(run).size();
  if (lost > 0) text += fmt::format("; lost ranks {} time{} (dotted)", lost, lost == 1 ? "" : "s");
  return text;
}

void draw_legend(std::span<const History> runs, double y, Out& out) {
  for (std::size_t i = 0; i < runs.size(); ++i, y += legend_line) {
    fmt::format_to(out, "<line x1=\"{0}\" y1=\"{1}\" x2=\"{2}\" y2=\"{1}\" stroke=\"{3}\" stroke-width=\"3\"/>\n", left,
                   y - 4, left + 24, colours[i % colours.size()]);
    fmt::format_to(out, "<text x=\"{}\" y=\"{}\">{}</text>\n", left + 32, y, escaped(summary(runs[i])));
  }
}

std::vector<Panel> panels_of(std::span<const History> runs) {
  std::vector<Curve> losses, values, speeds;
  std::string metric;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    losses.push_back({runs[i].train_loss, i});
    losses.push_back({runs[i].held_out_loss, i, true});
    values.push_back({runs[i].values, i});
    speeds.push_back({runs[i].samples_per_second, i});
    if (metric.empty()) metric = runs[i].metric;
  }
  std::vector<Panel> panels{panel_of("loss (held-out: dashed)", losses, Scale::wide)};
  if (!metric.empty())
    panels.push_back(
        panel_of("held-out " + metric + (metric.ends_with("accuracy") ? " (%)" : ""), values, Scale::free));
  panels.push_back(panel_of("samples/s", speeds, Scale::from_zero));
  return panels;
}

}  // namespace

std::string picture(std::span<const History> runs) {
  const std::vector<Panel> panels = panels_of(runs);
  const double width = left + static_cast<double>(panels.size()) * (panel_width + gap);
  const double legend = top + panel_height + 66;
  const double height = legend + static_cast<double>(runs.size()) * legend_line;
  std::string svg;
  Out out(svg);
  fmt::format_to(out,
                 "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\" "
                 "viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" font-family=\"sans-serif\" font-size=\"12\" "
                 "fill=\"#222\">\n<rect width=\"{0}\" height=\"{1}\" fill=\"white\"/>\n",
                 width, height);
  for (std::size_t i = 0; i < panels.size(); ++i) {
    fmt::format_to(out, "<g transform=\"translate({} {})\">\n", left + static_cast<double>(i) * (panel_width + gap),
                   top);
    draw_axes(panels[i], out);
    draw_losses(panels[i], runs, out);
    for (const Curve& curve : panels[i].curves) draw_curve(panels[i], curve, out);
    fmt::format_to(out, "</g>\n");
  }
  draw_legend(runs, legend, out);
  return svg + "</svg>\n";
}

}  // namespace tutti::plot
