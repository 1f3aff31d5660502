// Every rank computes the same order for an epoch and takes its part of it.
#include "engine/data/sampler.hpp"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <string>

#include "engine/config/options.hpp"
#include "engine/data/random.hpp"

namespace tutti::engine {
namespace {

constexpr std::string_view way_names[] = {"batch", "contiguous", "strided", "file"};
constexpr std::string_view remainder_names[] = {"uneven", "drop", "pad"};
constexpr std::string_view last_names[] = {"", " last=drop", " last=pad"};

std::size_t batch_of(std::size_t batch, int rank, int size) noexcept { return share(batch, rank, size).count; }

/// Parses the number at the beginning of `text`, and removes it together with `next`, which must follow. Returns false
/// if either is missing.
bool take_number(std::string_view& text, std::string_view next, std::size_t& number) {
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  text.remove_prefix(static_cast<std::size_t>(rest - text.data()));
  if (error != std::errc() || !text.starts_with(next)) return false;
  text.remove_prefix(next.size());
  return true;
}

// The limits of what a saved position in an epoch may say.
constexpr std::size_t most_parts = 1000, most_counted = std::size_t{1} << 31, most_ranks = 1 << 20;

bool take_parts(std::string_view text, std::vector<Progress::Part>& parts) {
  if (text == "none") return true;
  for (bool more = true; more;) {
    Progress::Part part;
    std::size_t size = 0;
    if (!take_number(text, "x", part.steps) || !take_number(text, "@", part.batch) || !take_number(text, "", size) ||
        size < 1 || size > most_ranks || part.batch < 1 || part.batch > most_counted || part.steps > most_counted ||
        parts.size() == most_parts)
      return false;
    part.size = static_cast<int>(size);
    parts.push_back(part);
    more = text.starts_with(',');
    if (more) text.remove_prefix(1);
  }
  return text.empty();
}

/// What the order depends on.
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

Sampler::Sampler(Plan plan) : plan_(std::move(plan)) {
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
  if (plan_.samples > (std::size_t{1} << 32)) refuse("a data set has at most 2^32 samples");
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
                                 : " " + text_of(plan_.blocks));
}

Sampler::Order Sampler::order_of(std::size_t epoch) const {
  Order order(plan_.samples);
  std::iota(order.begin(), order.end(), 0U);
  if (!plan_.shuffled) return order;
  if (!plan_.blocks.empty()) {
    Blocks blocks = plan_.blocks;
    if (plan_.way == Way::file) blocks.open = 1;
    return order_by_blocks(blocks, plan_.seed, epoch);
  }
  if (plan_.way != Way::file) {
    shuffle(std::span(order), Random::keyed(plan_.seed, 0x5a3b1e, epoch));
    return order;
  }
  Order files(plan_.files.size()), begins(plan_.files.size()), shuffled;
  std::iota(files.begin(), files.end(), 0U);
  std::exclusive_scan(plan_.files.begin(), plan_.files.end(), begins.begin(), std::uint32_t{0});
  shuffle(std::span(files), Random::keyed(plan_.seed, 0xf11e5, epoch));
  for (const std::uint32_t file : files) {
    const std::span<std::uint32_t> inside = std::span(order).subspan(begins[file], plan_.files[file]);
    shuffle(inside, Random::keyed(plan_.seed, 0x5a3b1e, epoch, file));
    shuffled.insert(shuffled.end(), inside.begin(), inside.end());
  }
  return shuffled;
}

/// The part of the order that each of `size` ranks has, for every way except batch.
std::vector<Sampler::Order> Sampler::deal(const Order& order, int size) const {
  const auto ranks = static_cast<std::size_t>(size);
  std::vector<Order> dealt(ranks);
  if (plan_.way == Way::contiguous) {
    for (int r = 0; r < size; ++r) {
      const Range mine = share(order.size(), r, size);
      const auto begin = order.begin() + static_cast<std::ptrdiff_t>(mine.begin);
      dealt[static_cast<std::size_t>(r)].assign(begin, begin + static_cast<std::ptrdiff_t>(mine.count));
    }
  } else if (plan_.way == Way::strided) {
    for (std::size_t i = 0; i < order.size(); ++i) dealt[i % ranks].push_back(order[i]);
  } else {
    std::vector<std::size_t> file_of_sample;
    for (std::size_t file = 0; file < plan_.files.size(); ++file)
      file_of_sample.insert(file_of_sample.end(), plan_.files[file], file);
    for (std::size_t i = 0, turn = 0; i < order.size(); ++i) {
      if (i > 0 && file_of_sample[order[i]] != file_of_sample[order[i - 1]]) ++turn;
      dealt[turn % ranks].push_back(order[i]);
    }
  }
  return dealt;
}

void Sampler::remove(Order& order, const Progress::Part& part) const {
  if (order.empty() || part.steps == 0) return;
  if (plan_.way == Way::batch) {
    const std::size_t seen = std::min(part.steps * part.batch, order.size());
    order.erase(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(seen));
    return;
  }
  std::vector<bool> seen(plan_.samples);
  // If there are more ranks than samples, the first ranks have one sample each and the others none.
  const int holders = static_cast<int>(std::min(static_cast<std::size_t>(part.size), order.size()));
  const std::vector<Order> dealt = deal(order, holders);
  for (int r = 0; r < holders; ++r) {
    const Order& one = dealt[static_cast<std::size_t>(r)];
    const std::size_t count = std::min(part.steps * batch_of(part.batch, r, part.size), one.size());
    for (std::size_t i = 0; i < count; ++i) seen[one[i]] = true;
  }
  std::erase_if(order, [&](std::uint32_t sample) { return seen[sample]; });
}

void Sampler::resume(const Progress& progress) {
  if (!progress.data.empty() && progress.data != data())
    refuse("the place to go on at is of other data: expected " + data() + ", found " + progress.data +
           ": give the same data, seed and options of data as before");
  Order order = order_of(progress.epoch);
  past_ = progress;
  past_.data = data();
  std::size_t done = 0;
  if (const auto& last = progress.parts;
      !last.empty() && last.back().size == plan_.size && last.back().batch == plan_.batch) {
    done = last.back().steps;  // the steps that were done keep their distribution
    past_.parts.pop_back();
  }
  base_ = 0;
  for (const Progress::Part& part : past_.parts) {
    remove(order, part);
    base_ += part.steps;
  }
  begin(std::move(order));
  first_ = std::min(base_ + done, steps());
}

void Sampler::begin(Order order) {
  if (plan_.way == Way::batch) {
    order_ = std::move(order);
    distinct_lengths_ = {order_.size()};
  } else {
    std::vector<Order> dealt = deal(order, plan_.size);
    distinct_lengths_.clear();
    for (const Order& one : dealt) distinct_lengths_.push_back(one.size());
    order_ = std::move(dealt[static_cast<std::size_t>(plan_.rank)]);
    const bool pads = plan_.remainder == Remainder::pad || plan_.last == Last::pad;
    if (order_.empty() && pads && !order.empty()) order_ = {order[0]};
  }
  even_out();
  steps_ = 0;
  for (std::size_t r = 0; r < lengths_.size(); ++r)
    steps_ = std::max(steps_, (lengths_[r] + each_of(r) - 1) / each_of(r));
  finish_last_step();
}

/// The samples of a full step in the part of the order with this number.
std::size_t Sampler::each_of(std::size_t part) const noexcept {
  return plan_.way == Way::batch ? plan_.batch : batch_of(plan_.batch, static_cast<int>(part), plan_.size);
}

/// Drops the final steps that are not full, or fills them up.
void Sampler::finish_last_step() {
  if (plan_.last == Last::drop)
    while (steps_ > 0 && global_count(base_ + steps_ - 1) < plan_.batch) --steps_;
  if (plan_.last != Last::pad) return;
  for (std::size_t r = 0; r < lengths_.size(); ++r) lengths_[r] = steps_ * each_of(r);
  repeat_to(lengths_[plan_.way == Way::batch ? 0 : static_cast<std::size_t>(plan_.rank)]);
}

/// Repeats the samples of order_ from its first on.
void Sampler::repeat_to(std::size_t length) {
  for (std::size_t i = 0, own = order_.size(); own > 0 && order_.size() < length; ++i)
    order_.push_back(order_[i % own]);
}

/// Makes all parts of all steps equally large by dropping or repeating samples.
void Sampler::even_out() {
  lengths_ = distinct_lengths_;
  if (plan_.remainder == Remainder::uneven) return;
  const bool drop = plan_.remainder == Remainder::drop;
  const std::size_t units =
      plan_.way == Way::batch ? grains_ : grains_ / std::gcd(grains_, static_cast<std::size_t>(plan_.size));
  std::size_t length =
      drop ? *std::min_element(lengths_.begin(), lengths_.end()) : *std::max_element(lengths_.begin(), lengths_.end());
  length = drop ? length / units * units : (length + units - 1) / units * units;
  std::fill(lengths_.begin(), lengths_.end(), length);
  for (std::size_t& each : distinct_lengths_) each = std::min(each, length);
  repeat_to(length);
  order_.resize(std::min(order_.size(), length));
}

std::size_t Sampler::global(std::size_t step, const std::vector<std::size_t>& lengths) const noexcept {
  std::size_t count = 0;
  for (std::size_t r = 0; r < lengths.size(); ++r)
    count += std::min(each_of(r), lengths[r] - std::min((step - base_) * each_of(r), lengths[r]));
  return count;
}

std::size_t Sampler::global_count(std::size_t step) const noexcept { return global(step, lengths_); }
std::size_t Sampler::global_distinct(std::size_t step) const noexcept { return global(step, distinct_lengths_); }

/// This rank's samples of `step`, as a range of order_.
Range Sampler::local_range(std::size_t step) const noexcept {
  const std::size_t t = step - base_;
  if (plan_.way != Way::batch) {
    const std::size_t each = batch_of(plan_.batch, plan_.rank, plan_.size);
    const std::size_t begin = std::min(t * each, order_.size());
    return {begin, std::min(each, order_.size() - begin)};
  }
  const std::size_t begin = std::min(t * plan_.batch, order_.size()), count = global_count(step);
  const auto cuts = static_cast<int>(grains_);
  const std::size_t end_grain = my_grains_.begin + my_grains_.count - 1;
  const Range first = share(count, static_cast<int>(my_grains_.begin), cuts);
  const Range last = share(count, static_cast<int>(end_grain), cuts);
  return {begin + first.begin, last.begin + last.count - first.begin};
}

std::span<const std::uint32_t> Sampler::local(std::size_t step) const noexcept {
  const Range mine = local_range(step);
  return std::span(order_).subspan(mine.begin, mine.count);
}

std::size_t Sampler::distinct(std::size_t step) const noexcept {
  const Range mine = local_range(step);
  const std::size_t length = distinct_lengths_[plan_.way == Way::batch ? 0 : static_cast<std::size_t>(plan_.rank)];
  return std::min(mine.count, length - std::min(mine.begin, length));
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
