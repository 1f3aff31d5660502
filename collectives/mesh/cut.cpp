#include "tutti/cut.hpp"

#include "tutti/status.hpp"

namespace tutti {

Interval common(Interval a, Interval b) noexcept {
  const Interval both{std::max(a.begin, b.begin), std::min(a.end, b.end)};
  return both.empty() ? Interval{} : both;
}

Box common(const Box& a, const Box& b) {
  Box both;
  for (std::size_t i = 0; i < a.size(); ++i) both.push_back(common(a[i], b.at(i)));
  return both;
}

std::int64_t volume(const Box& box) noexcept {
  std::int64_t product = 1;
  for (const Interval side : box) product *= side.size();
  return product;
}

std::string to_string(const Box& box) {
  std::string text;
  for (const Interval side : box)
    text += (text.empty() ? "[" : "x[") + std::to_string(side.begin) + "," + std::to_string(side.end) + ")";
  return text;
}

Cut::Cut(std::vector<std::int64_t> bounds) : bounds_(std::move(bounds)) {
  if (bounds_.size() < 2 || bounds_.front() != 0 || !std::ranges::is_sorted(bounds_))
    throw Error(Code::invalid, "a cut's bounds begin with 0 and do not decrease, one more than there are parts");
}

Cut Cut::even(std::int64_t extent, int parts, std::int64_t unit) {
  if (extent < 0 || parts < 1 || unit < 1 || extent % unit != 0)
    throw Error(Code::invalid, "an extent of " + std::to_string(extent) + " cannot be cut into " +
                                   std::to_string(parts) + " parts of multiples of " + std::to_string(unit));
  std::vector<std::int64_t> bounds{0};
  const std::int64_t units = extent / unit;
  for (int j = 0; j < parts; ++j)
    bounds.push_back(bounds.back() + unit * (units / parts + (units % parts > j ? 1 : 0)));
  return Cut(std::move(bounds));
}

Cut Cut::of_sizes(std::span<const std::int64_t> sizes) {
  std::vector<std::int64_t> bounds{0};
  for (const std::int64_t size : sizes) bounds.push_back(bounds.back() + size);
  return Cut(std::move(bounds));
}

Tiling Tiling::even(std::span<const std::int64_t> extents, std::span<const int> grid) {
  if (extents.size() != grid.size())
    throw Error(Code::invalid, "an array of " + std::to_string(extents.size()) + " dimensions on a grid of " +
                                   std::to_string(grid.size()));
  std::vector<Cut> cuts;
  for (std::size_t i = 0; i < grid.size(); ++i) cuts.push_back(Cut::even(extents[i], grid[i]));
  return Tiling(std::move(cuts));
}

int Tiling::parts() const noexcept {
  int product = 1;
  for (const Cut& cut : cuts_) product *= cut.parts();
  return product;
}

std::vector<int> Tiling::grid() const {
  std::vector<int> sizes;
  for (const Cut& cut : cuts_) sizes.push_back(cut.parts());
  return sizes;
}

std::vector<std::int64_t> Tiling::extents() const {
  std::vector<std::int64_t> sizes;
  for (const Cut& cut : cuts_) sizes.push_back(cut.extent());
  return sizes;
}

std::vector<int> Tiling::place(int part) const {
  std::vector<int> places(cuts_.size());
  for (std::size_t i = cuts_.size(); i-- > 0;) {
    places[i] = part % cuts_[i].parts();
    part /= cuts_[i].parts();
  }
  return places;
}

Box Tiling::box(int part) const {
  Box sides;
  const std::vector<int> places = place(part);
  for (std::size_t i = 0; i < cuts_.size(); ++i) sides.push_back(cuts_[i][places[i]]);
  return sides;
}

std::vector<Box> Tiling::boxes() const {
  std::vector<Box> all;
  for (int part = 0; part < parts(); ++part) all.push_back(box(part));
  return all;
}

Box Tiling::whole() const {
  Box sides;
  for (const Cut& cut : cuts_) sides.push_back(cut.whole());
  return sides;
}

}  // namespace tutti
