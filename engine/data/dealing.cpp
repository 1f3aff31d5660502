#include "engine/data/dealing.hpp"

#include <algorithm>
#include <cstdint>

#include "transports/core/checked.hpp"

namespace tutti::engine {
namespace {

/// Consecutive ranks. Each had `length` places (positions in the order of samples) and has taken `taken` of them.
struct Takers {
  std::size_t first, ranks, length, taken;
};

/// The product, or SIZE_MAX if it overflows: the number of steps may be far larger than that of samples.
std::size_t times(std::size_t a, std::size_t b) noexcept { return checked_product(a, b, SIZE_MAX).value_or(SIZE_MAX); }

}  // namespace

Rest::Rest(Way way, std::size_t places, const std::vector<std::size_t>& stretches) : way_(way), size_(places) {
  if (way != Way::file) return;
  std::vector<Range> files;
  std::size_t begin = 0;
  for (const std::size_t count : stretches) {
    files.push_back({begin, count});
    begin += count;
  }
  set_files(std::move(files));
}

void Rest::set_files(std::vector<Range> files) {
  std::erase_if(files, [](const Range& each) { return each.count == 0; });
  files_ = std::move(files);
  file_numbers_.clear();
  size_ = 0;
  for (const Range& each : files_) {
    file_numbers_.push_back(size_);
    size_ += each.count;
  }
}

Rest::Cut Rest::cut_of(Way way, std::size_t size, const StepsDone& done) noexcept {
  const auto ranks = static_cast<std::size_t>(done.size);
  return {.way = way,
          .size = size,
          .batch_low = done.batch / ranks,
          .batch_more = done.batch % ranks,
          .ranks = ranks,
          .steps = done.steps};
}

namespace {

/// Calls `use` with each group of takers of a cut, in the order of the ranks, until `use` returns true. There are at
/// most three groups: some ranks have one place more than others, and some take one place more in each step.
template <class Cut, class Use>
void for_takers(const Cut& cut, const Use& use) {
  const std::size_t low = cut.size / cut.ranks, more = cut.size % cut.ranks;
  const std::size_t ends[] = {std::min(more, cut.batch_more), std::max(more, cut.batch_more), cut.ranks};
  std::size_t first = 0;
  for (const std::size_t end : ends) {
    if (end == first) continue;
    const std::size_t length = low + (first < more ? 1 : 0);
    const std::size_t each = cut.batch_low + (first < cut.batch_more ? 1 : 0);
    if (use(Takers{first, end - first, length, std::min(times(cut.steps, each), length)})) return;
    first = end;
  }
}

}  // namespace

std::size_t Rest::left_by(const Cut& cut) noexcept {
  std::size_t left = cut.size;
  if (cut.way == Way::batch) return left - std::min(times(cut.steps, cut.batch_low * cut.ranks + cut.batch_more), left);
  for_takers(cut, [&](const Takers& group) {
    left -= group.ranks * group.taken;
    return false;
  });
  return left;
}

std::size_t Rest::before(const Cut& cut, std::size_t i) noexcept {
  if (cut.way == Way::batch) return i + cut.size - left_by(cut);
  if (cut.way == Way::strided) {
    // Samples lie in rows of `ranks`, column r for rank r. The first `gone` rows are used up. In the next `thinned`
    // rows, the first `batch_more` columns are used up, because these ranks take one sample more in each step.
    const std::size_t rows = cut.size / cut.ranks + 1, rest = cut.ranks - cut.batch_more;
    const std::size_t gone = std::min(times(cut.steps, cut.batch_low), rows);
    const std::size_t thinned = cut.batch_more > 0 ? std::min(cut.steps, rows) : 0;
    if (i < thinned * rest) return (gone + i / rest) * cut.ranks + cut.batch_more + i % rest;
    return (gone + thinned) * cut.ranks + i - thinned * rest;
  }
  std::size_t found = 0;
  for_takers(cut, [&](const Takers& group) {
    const std::size_t left = group.length - group.taken, all = group.ranks * left;
    if (i >= all) {
      i -= all;
      return false;
    }
    const auto rank = static_cast<int>(group.first + i / left);
    found = share(cut.size, rank, static_cast<int>(cut.ranks)).begin + group.taken + i % left;
    return true;
  });
  return found;
}

void Rest::take(const StepsDone& done) {
  if (size_ == 0 || done.steps == 0) return;
  if (way_ == Way::file) return take_files(done);
  const Cut cut = cut_of(way_, size_, done);
  cuts_.push_back(cut);
  size_ = left_by(cut);
}

/// take() for Way::file: each rank took the places of its files in their order, one file after the other.
void Rest::take_files(const StepsDone& done) {
  const auto ranks = static_cast<std::size_t>(done.size);
  std::vector<Range> left = files_;
  std::vector<std::size_t> taken(std::min(ranks, left.size()));
  for (std::size_t rank = 0; rank < taken.size(); ++rank)
    taken[rank] = times(done.steps, batch_of(done.batch, rank, done.size));
  for (std::size_t file = 0; file < left.size(); ++file) {
    std::size_t& due = taken[file % ranks];
    const std::size_t gone = std::min(due, left[file].count);
    left[file] = {left[file].begin + gone, left[file].count - gone};
    due -= gone;
  }
  set_files(std::move(left));
}

std::size_t Rest::place(std::size_t i) const noexcept {
  i = first_ + i * stride_;
  if (way_ == Way::file) {
    const auto file = static_cast<std::size_t>(std::ranges::upper_bound(file_numbers_, i) - file_numbers_.begin()) - 1;
    return files_[file].begin + i - file_numbers_[file];
  }
  for (auto cut = cuts_.rbegin(); cut != cuts_.rend(); ++cut) i = before(*cut, i);
  return i;
}

std::vector<std::size_t> Rest::lengths_by_file(int size) const {
  const auto ranks = static_cast<std::size_t>(size);
  std::vector<std::size_t> lengths(std::min(ranks, files_.size()));
  for (std::size_t file = 0; file < files_.size(); ++file) lengths[file % ranks] += files_[file].count;
  return lengths;
}

std::vector<Alike> Rest::shares(std::size_t batch, int size) const {
  if (way_ == Way::batch) return {{.ranks = 1, .length = size_, .each = batch}};
  std::vector<Alike> found;
  if (way_ != Way::file) {
    for_takers(cut_of(way_, size_, {.size = size, .batch = batch, .steps = 0}), [&](const Takers& group) {
      found.push_back({group.ranks, group.length, batch_of(batch, group.first, size)});
      return false;
    });
    return found;
  }
  const auto ranks = static_cast<std::size_t>(size);
  const std::vector<std::size_t> lengths = lengths_by_file(size);
  for (std::size_t rank = 0; rank < lengths.size(); ++rank)
    found.push_back({1, lengths[rank], batch_of(batch, rank, size)});
  const std::size_t more = std::max(batch % ranks, lengths.size());  // further ranks have no file
  if (more > lengths.size()) found.push_back({more - lengths.size(), 0, batch / ranks + 1});
  if (ranks > more) found.push_back({ranks - more, 0, batch / ranks});
  return found;
}

Rest Rest::of_rank(int rank, int size) const {
  Rest mine = *this;
  const auto r = static_cast<std::size_t>(rank), ranks = static_cast<std::size_t>(size);
  if (way_ == Way::contiguous) {
    const Range part = share(size_, rank, size);
    mine.first_ = part.begin;
    mine.size_ = part.count;
  } else if (way_ == Way::strided) {
    mine.first_ = r;
    mine.stride_ = ranks;
    mine.size_ = size_ / ranks + (r < size_ % ranks ? 1 : 0);
  } else if (way_ == Way::file) {
    std::vector<Range> own;
    for (std::size_t file = r; file < files_.size(); file += ranks) own.push_back(files_[file]);
    mine.set_files(std::move(own));
  }
  return mine;
}

}  // namespace tutti::engine
