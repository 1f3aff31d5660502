// The schedule as a picture: ranks from top to bottom, time from left to right.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <vector>

#include "tools/plan/page.hpp"
#include "tools/plan/pictures.hpp"
#include "tools/plan/text.hpp"
#include "tools/plot/axis.hpp"
#include "tools/plot/svg.hpp"
#include "tutti/status.hpp"

namespace tutti::planning {
namespace {

constexpr int most_drawn_ranks = 64;
constexpr std::size_t most_drawn_messages = 4000;
constexpr double chart_left = 96, chart_top = 62, chart_width = 760;
constexpr const char* fold_colour = plot::colours_on_any[2];

using Svg = std::back_insert_iterator<std::string>;

const char* colour_of(model::Level level) {
  static constexpr int colours[model::levels] = {0, 1, 3};  // colour 2 is for folds
  return plot::colours_on_any[colours[static_cast<int>(level)]];
}

/// The vertical position of each rank in the picture. Ranks of the same host are neighbours.
class Rows {
 public:
  explicit Rows(const Hosts& hosts) : hosts_(hosts), place_(hosts.host().size()) {
    for (int host = 0, place = 0; host < hosts.count(); ++host)
      for (const int rank : hosts[host]) place_[static_cast<std::size_t>(rank)] = place++;
    height_ = hosts.host().size() <= 16 ? 26 : hosts.host().size() <= 32 ? 18 : 12;
  }
  double y(int rank) const {
    return chart_top + gap_ * hosts_.host_of(rank) + height_ * (place_[static_cast<std::size_t>(rank)] + 0.5);
  }
  double begin(int host) const { return chart_top + gap_ * host + height_ * hosts_.before(host); }
  double size(int host) const { return height_ * hosts_.size_of(host); }
  double end() const { return begin(hosts_.count() - 1) + size(hosts_.count() - 1); }
  double height() const { return height_; }

 private:
  const Hosts& hosts_;
  std::vector<int> place_;
  double height_ = 0;
  static constexpr double gap_ = 6;  // the gap between two hosts
};

void check_size(const Request& request, const Row& row) {
  const char* const why = "a picture of the schedule has at most";
  if (request.shape.size > most_drawn_ranks)
    throw Error(Code::invalid, fmt::format("{} {} ranks, not {}: ask for fewer, or add --sweep bytes to draw costs",
                                           why, most_drawn_ranks, request.shape.size));
  const std::size_t messages = messages_of(row.counts());
  if (messages > most_drawn_messages)
    throw Error(Code::invalid, fmt::format("{} {} messages, not {}: ask for fewer ranks, fewer --bytes, or --lanes 1",
                                           why, count_text(most_drawn_messages), count_text(messages)));
}

void draw_ranks(const Request& request, const Rows& rows, Svg out) {
  const Hosts& hosts = *request.hosts;
  for (int host = 0; host < hosts.count(); ++host) {
    fmt::format_to(
        out,
        "<rect x=\"{}\" y=\"{:g}\" width=\"{}\" height=\"{:g}\" rx=\"3\" fill=\"#808080\" fill-opacity=\"0.1\"/>\n",
        chart_left, rows.begin(host), chart_width, rows.size(host));
    if (hosts.count() > 1)
      fmt::format_to(out, "<text x=\"12\" y=\"{:g}\">host {}</text>\n", rows.begin(host) + rows.size(host) / 2 + 4,
                     host);
  }
  fmt::format_to(out, "<path stroke=\"#808080\" stroke-opacity=\"0.35\" d=\"");
  for (int rank = 0; rank < request.shape.size; ++rank)
    fmt::format_to(out, "M{:g} {:g}h{:g}", chart_left, rows.y(rank), chart_width);
  fmt::format_to(out, "\"/>\n<g font-size=\"{:g}\" text-anchor=\"end\">\n", std::min(12.0, rows.height() - 2));
  for (int rank = 0; rank < request.shape.size; ++rank)
    fmt::format_to(out, "<text x=\"{:g}\" y=\"{:g}\">{}</text>\n", chart_left - 6, rows.y(rank) + 4, rank);
  fmt::format_to(out, "</g>\n");
}

/// The horizontal axis of times, in us.
class Times {
 public:
  explicit Times(double seconds) : axis_(plot::Axis::linear(0, seconds * 1e6, 8)) {}
  double x(double seconds) const { return chart_left + chart_width * axis_.at(seconds * 1e6); }
  void draw(double top, Svg out) const {
    for (const plot::Tick& tick : axis_.ticks()) {
      const double at = x(tick.value * 1e-6);
      fmt::format_to(out,
                     "<path d=\"M{:.1f} {:g}v4\" stroke=\"#808080\"/><text x=\"{:.1f}\" y=\"{:g}\" "
                     "text-anchor=\"middle\">{}</text>\n",
                     at, top, at, top + 18, tick.label);
    }
    fmt::format_to(out, "<text x=\"{:g}\" y=\"{:g}\" text-anchor=\"middle\">time (us)</text>\n",
                   chart_left + chart_width / 2, top + 36);
  }

 private:
  plot::Axis axis_;
};

/// Draws the two strokes of an arrow's head at the end of a line.
void draw_head(double x0, double y0, double x, double y, Svg out) {
  const double length = std::hypot(x - x0, y - y0);
  if (length < 1) return;
  const double dx = (x - x0) / length * 5, dy = (y - y0) / length * 5;
  fmt::format_to(out, "M{:.1f} {:.1f}L{:.1f} {:.1f}L{:.1f} {:.1f}", x - dx - 0.5 * dy, y - dy + 0.5 * dx, x, y,
                 x - dx + 0.5 * dy, y - dy - 0.5 * dx);
}

/// Draws one path for the messages of each level, and one for the folds, so that the file stays small.
void draw_messages(const std::vector<model::Message>& messages, const Rows& rows, const Times& times, Svg out) {
  const bool many = messages.size() > 1000;
  std::string dots;
  for (const model::Level level : {model::Level::within, model::Level::between, model::Level::beyond}) {
    std::string lines;
    for (const model::Message& one : messages) {
      if (one.level != level) continue;
      const double x0 = times.x(one.begin), y0 = rows.y(one.from), x = times.x(one.end), y = rows.y(one.to);
      fmt::format_to(Svg(lines), "M{:.1f} {:g}L{:.1f} {:g}", x0, y0, x, y);
      if (one.folds) fmt::format_to(Svg(dots), "M{:.1f} {:g}h.01", x, y);
      if (!one.folds && !many) draw_head(x0, y0, x, y, Svg(lines));
    }
    if (!lines.empty())
      fmt::format_to(out, "<path fill=\"none\" stroke=\"{}\" stroke-width=\"{:g}\" d=\"{}\"/>\n", colour_of(level),
                     many ? 0.6 : 1.2, lines);
  }
  if (!dots.empty())
    fmt::format_to(out, "<path stroke=\"{}\" stroke-width=\"{:g}\" stroke-linecap=\"round\" d=\"{}\"/>\n", fold_colour,
                   std::min(6.0, rows.height() / 3), dots);
}

void draw_legend(const Request& request, bool folds, Svg out) {
  double x = chart_left;
  const auto entry = [&](const char* colour, const char* text, const char* mark) {
    fmt::format_to(out, "<path stroke=\"{}\" d=\"M{:g} 42{}\"/><text x=\"{:g}\" y=\"46\">{}</text>\n", colour, x, mark,
                   x + 30, text);
    x += 150;
  };
  fmt::format_to(out, "<g stroke-width=\"2\" stroke-linecap=\"round\">\n");
  if (request.hosts->count() < request.shape.size) entry(colour_of(model::Level::within), "within a host", "h22");
  if (request.hosts->count() > 1) entry(colour_of(model::Level::between), "between hosts", "h22");
  if (request.hosts->above() != nullptr) entry(colour_of(model::Level::beyond), "between racks", "h22");
  fmt::format_to(out, "</g>\n<g stroke-width=\"6\" stroke-linecap=\"round\">\n");
  if (folds) entry(fold_colour, "folded", "m14 0h.01");
  fmt::format_to(out, "</g>\n");
}

}  // namespace

std::string space_time(const Request& request, const Row& row) {
  check_size(request, row);
  std::vector<model::Message> messages;
  const model::Outcome outcome = model::replay(row.call, request.network, true,
                                               [&](const model::Message& message) { messages.push_back(message); });
  const Rows rows(*request.hosts);
  const Times times(outcome.seconds);
  const std::string name = fmt::format("{}, {}", row.algorithm->name, title(request));
  std::string svg;
  const Svg out(svg);
  fmt::format_to(out,
                 "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 "
                 "{0:g} {1:g}\" width=\"{0:g}\" "
                 "height=\"{1:g}\" font-family=\"sans-serif\" font-size=\"12\" fill=\"{2}\">\n<title>{3}</title>\n",
                 chart_left + chart_width + 24, rows.end() + 48, plot::ink_on_any, plot::escaped(name));
  fmt::format_to(out, "<text x=\"{:g}\" y=\"24\" font-size=\"15\">{}</text>\n", chart_left, plot::escaped(name));
  draw_ranks(request, rows, out);
  draw_legend(request, outcome.counts.folded > 0, out);
  draw_messages(messages, rows, times, out);
  times.draw(rows.end() + 4, out);
  return svg + "</svg>\n";
}

}  // namespace tutti::planning
