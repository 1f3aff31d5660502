// An SVG plot: bus bandwidth over size, one line for each implementation, named at its end.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "tools/bench/axes.hpp"
#include "tools/plot/svg.hpp"

namespace tutti::bench {
namespace {

constexpr double left = 80, top = 48, width = 600, height = 380, line_gap = 16;

/// Colours that colour-blind readers can tell apart (Okabe and Ito).
constexpr std::array<const char*, 7> colours = {"#000000", "#0072B2", "#D55E00", "#009E73",
                                                "#CC79A7", "#E69F00", "#56B4E9"};
constexpr std::array<const char*, 3> dashes = {"none", "6 3", "2 3"};

double x_of(double at) { return left + at * width; }
double y_of(double at) { return top + (1 - at) * height; }

void print_grid(const Axes& axes, std::FILE* to) {
  fmt::print(to, "<g stroke=\"#ddd\" stroke-width=\"1\">\n");
  for (const Tick& tick : axes.sizes.ticks())
    fmt::print(to, "<line x1=\"{0:.1f}\" y1=\"{1:.1f}\" x2=\"{0:.1f}\" y2=\"{2:.1f}\"/>\n", x_of(tick.at), y_of(0),
               y_of(1));
  for (const Tick& tick : axes.bandwidths.ticks())
    fmt::print(to, "<line x1=\"{0:.1f}\" y1=\"{1:.1f}\" x2=\"{2:.1f}\" y2=\"{1:.1f}\"/>\n", x_of(0), y_of(tick.at),
               x_of(1));
  fmt::print(to, "</g>\n<g fill=\"#333\">\n");
  for (const Tick& tick : axes.sizes.ticks())
    fmt::print(to, "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>\n", x_of(tick.at), y_of(0) + 18,
               tick.label);
  for (const Tick& tick : axes.bandwidths.ticks())
    if (!tick.label.empty())
      fmt::print(to, "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n", x_of(0) - 6, y_of(tick.at) + 4,
                 tick.label);
  fmt::print(to, "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">size</text>\n", x_of(0.5), y_of(0) + 40);
  fmt::print(
      to,
      "<text transform=\"translate(18 {:.1f}) rotate(-90)\" text-anchor=\"middle\">bus bandwidth (GB/s)</text>\n</g>\n",
      y_of(0.5));
}

}  // namespace

void print_svg(const Plot& plot, std::FILE* to) {
  const Axes axes = axes_of(plot);
  fmt::print(to,
             "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
             "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 896 490\" width=\"896\" height=\"490\" "
             "font-family=\"sans-serif\" font-size=\"12\">\n");
  fmt::print(to,
             "<title>{0}</title>\n<rect width=\"896\" height=\"490\" fill=\"white\"/>\n"
             "<text x=\"{1}\" y=\"26\" font-size=\"16\">{0}</text>\n",
             plot::escaped(plot.title), left);
  print_grid(axes, to);
  std::vector<double> ends;
  for (const Curve& curve : plot.curves)
    ends.push_back(y_of(curve.points.empty() ? 0 : axes.bandwidths.at(curve.points.back().gb_s)));
  const std::vector<double> heights = plot::moved_apart(ends, top, top + height, line_gap);
  for (std::size_t i = 0; i < plot.curves.size(); ++i) {
    const Curve& curve = plot.curves[i];
    const char* colour = colours[i % colours.size()];
    std::string path, dots;
    for (const Point& point : curve.points) {
      const double x = x_of(axes.sizes.at(static_cast<double>(point.bytes))), y = y_of(axes.bandwidths.at(point.gb_s));
      path += fmt::format("{}{:.1f},{:.1f}", path.empty() ? "" : " ", x, y);
      dots +=
          fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.5\"><title>{} bytes: {:.3g} GB/s</title></circle>\n",
                      x, y, point.bytes, point.gb_s);
    }
    fmt::print(to,
               "<g fill=\"{}\">\n<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\" "
               "stroke-dasharray=\"{}\"/>\n{}",
               colour, path, colour, dashes[i / colours.size() % dashes.size()], dots);
    fmt::print(to,
               "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\" stroke-width=\"0.5\"/>\n",
               x_of(1) + 3, ends[i], x_of(1) + 14, heights[i], colour);
    fmt::print(to, "<text x=\"{:.1f}\" y=\"{:.1f}\">{}<title>{} {}</title></text>\n</g>\n", x_of(1) + 18,
               heights[i] + 4, plot::escaped(curve.name), plot::escaped(curve.version), plot::escaped(curve.settings));
  }
  fmt::print(to, "</svg>\n");
}

}  // namespace tutti::bench
