#include "tools/plot/svg.hpp"

#include <algorithm>
#include <numeric>

namespace tutti::plot {

std::string escaped(std::string_view text) {
  std::string safe;
  for (const char c : text) {
    if (c == '&')
      safe += "&amp;";
    else if (c == '<')
      safe += "&lt;";
    else if (c == '>')
      safe += "&gt;";
    else if (c == '"')
      safe += "&quot;";
    else if (static_cast<unsigned char>(c) >= ' ')
      safe += c;
  }
  return safe;
}

std::vector<double> moved_apart(std::span<const double> wanted, double least, double most, double gap) {
  std::vector<std::size_t> order(wanted.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, {}, [&](std::size_t i) { return wanted[i]; });
  std::vector<double> places(wanted.size());
  double next = least;
  for (const std::size_t i : order) next = (places[i] = std::max(wanted[i], next)) + gap;
  double limit = most;  // moves names beyond `most` back
  for (auto i = order.rbegin(); i != order.rend(); ++i) limit = (places[*i] = std::min(places[*i], limit)) - gap;
  return places;
}

}  // namespace tutti::plot
