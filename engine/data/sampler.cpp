// Every rank knows the same order for an epoch and takes its part of it.
#include "engine/data/sampler.hpp"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <string>

#include "engine/config/options.hpp"
#include "engine/data/permutation.hpp"

namespace tutti::engine {
namespace {

constexpr std::string_view way_names[] = {"batch", "contiguous", "strided", "file"};
constexpr std::string_view remainder_names[] = {"uneven", "drop", "pad"};
constexpr std::string_view last_names[] = {"", " last=drop", " last=pad"};

/// Parses the number at the beginning of `text`, and removes it together with `next`, which must follow. Returns false
/// if either is missing.
bool take_number(std::string_view& text, std::string_view next, std::size_t& number) {
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  text.remove_prefix(static_cast<std::size_t>(rest - text.data()));
  if (error != std::errc() || !text.starts_with(next)) return false;
  text.remove_prefix(next.size());
  return true;
}

// Limits for the numbers in Progress::text(). An epoch may have as many steps as samples.
constexpr std::size_t most_parts = 1000, most_counted = Permutation::most, most_ranks = 1 << 20;

bool take_parts(std::string_view text, std::vector<Progress::Part>& parts) {
  if (text == "none") return true;
  std::size_t steps = 0;
  for (bool more = true; more;) {
    Progress::Part part;
    std::size_t size = 0;
    if (!take_number(text, "x", part.steps) || !take_number(text, "@", part.batch) || !take_number(text, "", size) ||
        size < 1 || size > most_ranks || part.batch < 1 || part.batch > most_counted ||
        part.steps > most_counted - steps || parts.size() == most_parts)
      return false;
    steps += part.steps;
    part.size = static_cast<int>(size);
    parts.push_back(part);
    more = text.starts_with(',');
    if (more) text.remove_prefix(1);
  }
  return text.empty();
}

/// The properties of `blocks` that determine the order of samples, as a text.
std::string text_of(const Blocks& blocks) {
  return "blocks=" + std::to_string(blocks.count()) + " window=" + std::to_string(blocks.window) +
         " open=" + std::to_string(blocks.open) + " digest=" + std::to_string(blocks.digest());
}

}  // namespace

std::string Progress::text() const {
  std::string steps;
  for (const Part& part : parts)
    steps += (steps.empty() ? "" : ",") + std::to_string(part.steps) + "x" + std::to_string(part.batch) + "@" +
             std::to_string(part.size);
  return "epoch=" + std::to_string(epoch) + " steps=" + (steps.empty() ? "none" : steps) + " " + data;
}

Progress Progress::parse(std::string_view text) {
  constexpr std::string_view epoch = "epoch=";
  Progress found;
  std::string_view rest = text;
  rest.remove_prefix(rest.starts_with(epoch) ? epoch.size() : rest.size());
  const bool begins = take_number(rest, " steps=", found.epoch);
  const std::size_t end = std::min(rest.find(' '), rest.size());
  if (!begins || end == rest.size() || !take_parts(rest.substr(0, end), found.parts))
    refuse("'" + std::string(text) +
           "' is no place in an epoch: expected epoch=1 steps=17x64@4 ..., which is 17 steps of 64 samples on 4 ranks");
  found.data = rest.substr(end + 1);
  return found;
}

Sampler::Sampler(Plan plan) : plan_(std::move(plan)), rest_(Way::batch, 0, {}) {
  check();
  grains_ = plan_.grains > 0 ? plan_.grains : static_cast<std::size_t>(plan_.size);
  my_grains_ = share(grains_, plan_.rank, plan_.size);
  start_epoch(0);
  if (steps() == 0)
    refuse("data.last=drop leaves no step, as " + std::to_string(plan_.samples) + " samples do not fill a batch of " +
           std::to_string(plan_.batch) + ": set batch= to fewer");
}

void Sampler::check() const {
  const auto size = static_cast<std::size_t>(plan_.size);
  const std::string ranks = std::to_string(plan_.size) + " ranks";
  const std::string batch = std::to_string(plan_.batch);
  if (plan_.batch == 0) refuse("batch=0: a global batch needs at least one sample");
  if (plan_.shuffled && plan_.shuffle == Shuffle::listed && plan_.samples > (std::size_t{1} << 32))
    refuse("data.order=list is for at most 2^32 samples: say data.order=keyed");
  if (plan_.samples > Permutation::most) refuse("a data set has at most 2^62 samples");
  if (plan_.samples < size)
    refuse(ranks + ", but only " + std::to_string(plan_.samples) +
           " samples: start at most as many ranks as there are samples");
  if (plan_.batch < size)
    refuse(ranks + ", but a global batch of " + batch + ": set batch= to at least the number of ranks");
  if (plan_.grains > 0 && (plan_.grains < size || plan_.grains > plan_.batch))
    refuse(std::to_string(plan_.grains) + " grains: expected from " + std::to_string(plan_.size) +
           ", one for each rank, to " + batch + ", one for each sample of a batch");
  const std::size_t units = plan_.grains > 0 ? plan_.grains : size;
  if (plan_.remainder != Remainder::uneven && plan_.batch % units != 0)
    refuse("a global batch of " + batch + " cannot be cut into " + std::to_string(units) +
           " equal parts: set batch= to a multiple, or let the remainder be uneven");
  if (!plan_.blocks.empty() && plan_.blocks.samples() != plan_.samples)
    refuse("the blocks' samples are not those of the data set: expected " + std::to_string(plan_.samples) +
           " together");
  if (plan_.way != Way::file) return;
  if (std::accumulate(plan_.files.begin(), plan_.files.end(), std::size_t{0}) != plan_.samples)
    refuse("the files' samples are not those of the data set: expected " + std::to_string(plan_.samples) + " together");
  if (plan_.files.size() < size)
    refuse(ranks + ", but only " + std::to_string(plan_.files.size()) +
           " files: start at most as many ranks as there are files, or deal out samples instead of files");
}

std::string Sampler::data() const {
  return "samples=" + std::to_string(plan_.samples) + " seed=" + std::to_string(plan_.seed) +
         " way=" + std::string(way_names[static_cast<std::size_t>(plan_.way)]) +
         " remainder=" + std::string(remainder_names[static_cast<std::size_t>(plan_.remainder)]) +
         std::string(last_names[static_cast<std::size_t>(plan_.last)]) +
         (!plan_.shuffled        ? " in order"
          : plan_.blocks.empty() ? ""
                                 : " " + text_of(plan_.blocks)) +
         (plan_.shuffled && plan_.shuffle == Shuffle::keyed ? " keyed" : "");
}

EpochOrder Sampler::order_of(std::size_t epoch) const {
  const std::span<const std::size_t> files =
      plan_.way == Way::file ? std::span(plan_.files) : std::span<const std::size_t>();
  if (!plan_.shuffled) return order_as_it_is(plan_.samples, files);
  return shuffled_order({.samples = plan_.samples,
                         .seed = plan_.seed,
                         .epoch = epoch,
                         .shuffle = plan_.shuffle,
                         .files = files,
                         .blocks = plan_.blocks.empty() ? nullptr : &plan_.blocks});
}

void Sampler::resume(const Progress& progress) {
  if (!progress.data.empty() && progress.data != data())
    refuse("the place to go on at is of other data: expected " + data() + ", found " + progress.data +
           ": give the same data, seed and options of data as before" +
           (data() == progress.data + " keyed" ? ", here data.order=list" : ""));
  order_ = order_of(progress.epoch);
  past_ = progress;
  past_.data = data();
  std::size_t done = 0;
  if (const auto& last = progress.parts;
      !last.empty() && last.back().size == plan_.size && last.back().batch == plan_.batch) {
    done = last.back().steps;  // the steps that were done keep their distribution
    past_.parts.pop_back();
  }
  base_ = 0;
  Rest rest(plan_.way, order_.size, order_.stretches);
  for (const Progress::Part& part : past_.parts) {
    rest.take(part);
    base_ += part.steps;
  }
  begin(rest);
  first_ = std::min(base_ + done, steps());
}

void Sampler::begin(const Rest& rest) {
  parts_.clear();
  for (const Alike& each : rest.shares(plan_.batch, plan_.size)) parts_.push_back({{each}, each.length});
  repeated_.clear();
  rest_ = rest.of_rank(plan_.rank, plan_.size);
  length_ = rest_.size();
  const bool pads = plan_.remainder == Remainder::pad || plan_.last == Last::pad;
  if (length_ == 0 && pads && rest.size() > 0) {  // a rank without samples repeats the first sample of all
    rest_ = rest;
    length_ = 1;
    repeated_ = {1};
  }
  even_out();
  steps_ = 0;
  for (const Part& each : parts_) steps_ = std::max(steps_, (each.length + each.each - 1) / each.each);
  finish_last_step();
}

/// Drops the final steps that are not full, or fills them up.
void Sampler::finish_last_step() {
  if (plan_.last == Last::drop)
    while (steps_ > 0 && global_count(base_ + steps_ - 1) < plan_.batch) --steps_;
  if (plan_.last != Last::pad) return;
  for (Part& each : parts_) each.length = steps_ * each.each;
  repeat_to(mine().length);
}

/// Extends this rank's samples to `length` by repeating them from the first one on.
void Sampler::repeat_to(std::size_t length) {
  if (length_ == 0 || length <= length_) return;
  repeated_.push_back(length_);
  length_ = length;
}

/// Gives all micro-batches of a step, on all ranks, the same number of samples, by dropping or repeating samples.
void Sampler::even_out() {
  if (plan_.remainder == Remainder::uneven) return;
  const bool drop = plan_.remainder == Remainder::drop;
  const std::size_t units =
      plan_.way == Way::batch ? grains_ : grains_ / std::gcd(grains_, static_cast<std::size_t>(plan_.size));
  const auto [least, most] = std::ranges::minmax(parts_, {}, &Part::length);
  const std::size_t length = drop ? least.length / units * units : (most.length + units - 1) / units * units;
  for (Part& each : parts_) {
    each.length = length;
    each.distinct = std::min(each.distinct, length);
  }
  repeat_to(length);
  length_ = std::min(length_, length);
}

/// The entry of parts_ that contains this rank.
const Sampler::Part& Sampler::mine() const noexcept {
  std::size_t rank = plan_.way == Way::batch ? 0 : static_cast<std::size_t>(plan_.rank);
  const Part* found = parts_.data();
  for (; rank >= found->ranks; ++found) rank -= found->ranks;
  return *found;
}

std::size_t Sampler::global(std::size_t step, std::size_t Part::*length) const noexcept {
  std::size_t count = 0;
  for (const Part& part : parts_)
    count += part.ranks * std::min(part.each, part.*length - std::min((step - base_) * part.each, part.*length));
  return count;
}

std::size_t Sampler::global_count(std::size_t step) const noexcept { return global(step, &Part::length); }
std::size_t Sampler::global_distinct(std::size_t step) const noexcept { return global(step, &Part::distinct); }

/// This rank's samples of `step`, as a range of own().
Range Sampler::local_range(std::size_t step) const noexcept {
  const std::size_t t = step - base_;
  if (plan_.way != Way::batch) {
    const std::size_t each = batch_of(plan_.batch, static_cast<std::size_t>(plan_.rank), plan_.size);
    const std::size_t begin = std::min(t * each, length_);
    return {begin, std::min(each, length_ - begin)};
  }
  const std::size_t begin = std::min(t * plan_.batch, length_), count = global_count(step);
  const auto cuts = static_cast<int>(grains_);
  const std::size_t end_grain = my_grains_.begin + my_grains_.count - 1;
  const Range first = share(count, static_cast<int>(my_grains_.begin), cuts);
  const Range last = share(count, static_cast<int>(end_grain), cuts);
  return {begin + first.begin, last.begin + last.count - first.begin};
}

SampleId Sampler::own(std::size_t i) const {
  for (auto each = repeated_.rbegin(); each != repeated_.rend(); ++each) i %= *each;
  return order_.at(rest_.place(i));
}

std::vector<SampleId> Sampler::local(std::size_t step) const {
  const Range mine = local_range(step);
  std::vector<SampleId> found(mine.count);
  for (std::size_t i = 0; i < mine.count; ++i) found[i] = own(mine.begin + i);
  return found;
}

std::optional<SampleId> Sampler::last() const {
  std::size_t end = steps();
  if (plan_.way != Way::batch) end = std::min(end, base_ + (length_ + mine().each - 1) / mine().each);
  for (; end > first_; --end)  // with Way::batch the last step may have no sample for this rank
    if (const Range range = local_range(end - 1); range.count > 0) return own(range.begin + range.count - 1);
  return std::nullopt;
}

std::size_t Sampler::distinct(std::size_t step) const noexcept {
  const Range range = local_range(step);
  return std::min(range.count, mine().distinct - std::min(range.begin, mine().distinct));
}

std::vector<std::size_t> Sampler::pieces(std::size_t step) const {
  std::vector<std::size_t> found;
  const bool whole = plan_.way == Way::batch;
  const std::size_t total = whole ? global_count(step) : local_range(step).count;
  for (std::size_t i = 0; i < my_grains_.count; ++i)
    found.push_back(whole ? share(total, static_cast<int>(my_grains_.begin + i), static_cast<int>(grains_)).count
                          : share(total, static_cast<int>(i), static_cast<int>(my_grains_.count)).count);
  return found;
}

Progress Sampler::progress(std::size_t step) const {
  Progress found = past_;
  found.parts.push_back({plan_.size, plan_.batch, std::min(step, steps()) - base_});
  return found;
}

}  // namespace tutti::engine
