#include "engine/data/order.hpp"

#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>

#include "engine/data/permutation.hpp"
#include "engine/data/random.hpp"

namespace tutti::engine {
namespace {

constexpr std::uint64_t by_samples = 0x5a3b1e, by_files = 0xf11e5;

/// An order that is divided into windows, within which samples are shuffled. A piece is a run of consecutive samples.
struct Windows {
  std::vector<std::size_t> begins;   // the place of each window's first sample
  std::vector<Random> keys;          // key for shuffling each window
  std::vector<std::size_t> places;   // the place of each piece's first sample, before it is shuffled
  std::vector<std::size_t> samples;  // the first sample of each piece
  std::size_t size = 0;

  std::size_t window_of(std::size_t place) const { return last_not_after(begins, place); }
  std::size_t end_of(std::size_t window) const { return window + 1 < begins.size() ? begins[window + 1] : size; }
  /// The sample at this place before shuffling.
  SampleId unshuffled(std::size_t place) const {
    const std::size_t piece = last_not_after(places, place);
    return samples[piece] + (place - places[piece]);
  }

 private:
  static std::size_t last_not_after(const std::vector<std::size_t>& ascending, std::size_t place) {
    return static_cast<std::size_t>(std::ranges::upper_bound(ascending, place) - ascending.begin()) - 1;
  }
};

void open_window(Windows& into, Random key) {
  into.begins.push_back(into.size);
  into.keys.push_back(key);
}

void add_piece(Windows& into, std::size_t first, std::size_t count) {
  into.places.push_back(into.size);
  into.samples.push_back(first);
  into.size += count;
}

/// A single window with all samples.
Windows of_all(const OrderWish& wish) {
  Windows found;
  open_window(found, Random::keyed(wish.seed, by_samples, wish.epoch));
  add_piece(found, 0, wish.samples);
  return found;
}

/// A window for each file. Files without samples have none.
Windows of_files(const OrderWish& wish, std::vector<std::size_t>& stretches) {
  std::vector<std::size_t> files(wish.files.size()), begins(wish.files.size());
  std::iota(files.begin(), files.end(), std::size_t{0});
  std::exclusive_scan(wish.files.begin(), wish.files.end(), begins.begin(), std::size_t{0});
  shuffle(std::span(files), Random::keyed(wish.seed, by_files, wish.epoch));
  Windows found;
  for (const std::size_t file : files) {
    if (wish.files[file] == 0) continue;
    open_window(found, Random::keyed(wish.seed, by_samples, wish.epoch, file));
    add_piece(found, begins[file], wish.files[file]);
    stretches.push_back(wish.files[file]);
  }
  return found;
}

Windows of_blocks(const OrderWish& wish, std::vector<std::size_t>& stretches) {
  Blocks blocks = *wish.blocks;
  if (!wish.files.empty()) blocks.open = 1;
  Windows found;
  std::size_t turn = 0;
  for (const BlockWindow& window : windows_of(blocks, wish.seed, wish.epoch)) {
    std::size_t count = 0;
    for (const Range& block : window.blocks) count += block.count;
    if (count == 0) continue;
    if (stretches.empty() || window.turn != turn) stretches.push_back(0);
    stretches.back() += count;
    turn = window.turn;
    open_window(found, Random::keyed(wish.seed, by_samples, wish.epoch, found.size));
    for (const Range& block : window.blocks)
      if (block.count > 0) add_piece(found, block.begin, block.count);
  }
  if (wish.files.empty()) stretches.clear();
  return found;
}

EpochOrder listed(const Windows& windows) {
  auto order = std::make_shared<std::vector<std::uint32_t>>();
  order->reserve(windows.size);
  for (std::size_t piece = 0; piece < windows.places.size(); ++piece) {
    const std::size_t end = piece + 1 < windows.places.size() ? windows.places[piece + 1] : windows.size;
    for (std::size_t i = windows.places[piece]; i < end; ++i)
      order->push_back(static_cast<std::uint32_t>(windows.samples[piece] + (i - windows.places[piece])));
  }
  for (std::size_t i = 0; i < windows.begins.size(); ++i)
    shuffle(std::span(*order).subspan(windows.begins[i], windows.end_of(i) - windows.begins[i]), windows.keys[i]);
  return {.size = windows.size, .at = [order](std::size_t place) { return SampleId{(*order)[place]}; }};
}

EpochOrder keyed(Windows windows) {
  const std::size_t size = windows.size;
  if (windows.begins.size() == 1 && windows.places.size() == 1)
    return {.size = size,
            .at = [all = Permutation(size, windows.keys[0])](std::size_t place) { return SampleId{all(place)}; }};
  const auto kept = std::make_shared<const Windows>(std::move(windows));
  return {.size = size, .at = [kept](std::size_t place) {
            const std::size_t window = kept->window_of(place), begin = kept->begins[window];
            const Permutation inside(kept->end_of(window) - begin, kept->keys[window]);
            return kept->unshuffled(begin + inside(place - begin));
          }};
}

}  // namespace

EpochOrder order_as_it_is(std::size_t samples, std::span<const std::size_t> files) {
  EpochOrder found{.size = samples, .at = [](std::size_t place) { return SampleId{place}; }};
  std::ranges::copy_if(files, std::back_inserter(found.stretches), [](std::size_t count) { return count > 0; });
  return found;
}

EpochOrder shuffled_order(const OrderWish& wish) {
  std::vector<std::size_t> stretches;
  Windows windows = wish.blocks != nullptr ? of_blocks(wish, stretches)
                    : wish.files.empty()   ? of_all(wish)
                                           : of_files(wish, stretches);
  EpochOrder found = wish.shuffle == Shuffle::listed ? listed(windows) : keyed(std::move(windows));
  found.stretches = std::move(stretches);
  return found;
}

}  // namespace tutti::engine
