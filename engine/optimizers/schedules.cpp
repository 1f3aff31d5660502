#include "engine/optimizers/schedules.hpp"

#include <cmath>
#include <limits>
#include <numbers>

namespace tutti::engine {
namespace {

using Kind = OptionInfo::Kind;

constexpr OptionInfo step_options[] = {
    {"milestones", Kind::sizes, "20,40,60", "epochs from which on the rate is multiplied by gamma once more"},
    {"every", Kind::whole, "0", "epochs between multiplications, in place of milestones; 0: milestones"},
    {"gamma", Kind::number, "0.1", "the factor"},
};
constexpr OptionInfo end{"end", Kind::number, "0", "the part of the rate that is left at the end"};
constexpr OptionInfo poly_options[] = {{"power", Kind::number, "1", "1 is a straight line, 0.5 GoogLeNet's in Caffe"},
                                       end};
constexpr OptionInfo cosine_options[] = {end};
constexpr OptionInfo exponential_options[] = {
    {"gamma", Kind::number, "0.95", "the factor of `every` epochs"},
    {"every", Kind::number, "1", "epochs"},
};
constexpr OptionInfo inverse_options[] = {
    {"decay", Kind::number, "1", "how much the divisor grows in `every` epochs"},
    {"every", Kind::number, "1", "epochs"},
};
constexpr OptionInfo product_options[] = {
    {"first", Kind::whole, "5", "the first epoch with a factor"},
    {"span", Kind::number, "240", "the epoch that would bring the rate to 0", 1},
};
constexpr OptionInfo auto_options[] = {
    {"records", Kind::whole, "3", "validations that are compared, the first with the last", 2},
    {"threshold", Kind::number, "0.01", "the least improvement over them"},
    {"divide", Kind::number, "10", "what the rate is divided by", 1},
    {"first", Kind::whole, "5", "epochs before any division"},
};
constexpr OptionInfo cycle_options[] = {
    {"rises", Kind::number, "0.3", "the part of the steps in which the rate rises", 0, 1},
    {"divide", Kind::number, "25", "the rate begins at this part of it: 1 / divide", 1},
    {"divide_end", Kind::number, "10000", "and ends so many times lower than it began", 1},
    {"linear", Kind::flag, "false", "rise and fall in straight lines, not in half cosines"},
};
constexpr OptionInfo plateau_options[] = {
    {"factor", Kind::number, "0.1", "of the rate, each time", 0, 1},
    {"patience", Kind::whole, "10", "epochs that may pass without a better value"},
    {"threshold", Kind::number, "0.0001", "better is what is lower by more than this part of the best", 0, 1},
    {"cooldown", Kind::whole, "0", "epochs after a division that do not count"},
    {"least", Kind::number, "0", "the part of the rate that always stays", 0, 1},
};
constexpr ChoiceInfo table[] = {
    {"constant", "the same all along", {}},
    {"step", "divided at given epochs", step_options},
    {"poly", "a power of what is left of the training", poly_options},
    {"cosine", "half a cosine", cosine_options},
    {"exponential", "by a factor in each epoch, a part of it in each step", exponential_options},
    {"inverse_time", "by 1 / (1 + decay * epochs)", inverse_options},
    {"root_product", "by sqrt(1 - epoch / span) in each epoch", product_options},
    {"auto", "divided when the validation error improves too little", auto_options},
    {"one_cycle", "up to the rate and far down again, once in all steps", cycle_options},
    {"plateau", "by a factor when the validation error has stopped to fall", plateau_options},
};

/// The part of training after the warm-up that is done, from 0 to 1; 0 if the warm-up takes all of training.
double part_done(const Place& place, double warm) {
  const double at = static_cast<double>(place.step), total = static_cast<double>(place.total_steps);
  return total <= warm ? 0 : std::clamp((at - warm) / (total - warm), 0.0, 1.0);
}

double interval(const Options& options) {
  const double every = options.number("every");
  if (every <= 0) refuse(std::string(options.choice().name) + ": every=0: expected a number of epochs above 0");
  return every;
}

double root_product(std::size_t epoch, std::size_t first, double span) {
  double factor = 1;
  for (std::size_t i = first; i <= epoch; ++i) factor *= std::sqrt(std::max(0.0, 1 - static_cast<double>(i) / span));
  return factor;
}

/// Interpolates between `from` (`part` is 0) and `to` (`part` is 1), along a line or half a cosine.
double between(double from, double to, double part, bool linear) {
  return linear ? from + (to - from) * part : to + (from - to) / 2 * (1 + std::cos(std::numbers::pi * part));
}

/// Equals torch's OneCycleLR with two phases. Step rises * steps - 1 has the highest rate.
double one_cycle(const Place& place, double rises, double divide, double divide_end, bool linear) {
  const double last = static_cast<double>(place.total_steps) - 1, at = std::min(static_cast<double>(place.step), last);
  const double top = rises * static_cast<double>(place.total_steps) - 1;
  if (at <= top) return top > 0 ? between(1 / divide, 1, at / top, linear) : 1;
  return between(1, 1 / (divide * divide_end), last > top ? (at - top) / (last - top) : 0, linear);
}

}  // namespace

std::span<const ChoiceInfo> schedule_table() noexcept { return table; }

Schedule::Curve Schedule::curve_of(const Options& options) {
  const std::string_view name = options.choice().name;
  if (name == "step") {
    const double gamma = options.number("gamma");
    if (const std::int64_t every = options.whole("every"); every > 0)
      return [=](const Place& place, double) {
        return std::pow(gamma, static_cast<double>(place.epoch() / static_cast<std::size_t>(every)));
      };
    return [gamma, milestones = options.sizes("milestones")](const Place& place, double) {
      const auto reached = std::ranges::count_if(
          milestones, [&](std::int64_t each) { return place.epoch() >= static_cast<std::size_t>(each); });
      return std::pow(gamma, static_cast<double>(reached));
    };
  }
  if (name == "poly")
    return [power = options.number("power"), left = options.number("end")](const Place& place, double warm) {
      return left + (1 - left) * std::pow(1 - part_done(place, warm), power);
    };
  if (name == "cosine")
    return [left = options.number("end")](const Place& place, double warm) {
      const double at = static_cast<double>(place.step), total = static_cast<double>(place.total_steps);
      if (total <= warm) return 1.0;
      return left + (1 - left) * (0.5 * (1 + std::cos(std::numbers::pi * (at - warm) / (total - warm))));
    };
  if (name == "exponential")
    return [gamma = options.number("gamma"), every = interval(options)](const Place& place, double) {
      return std::pow(gamma, place.epochs() / every);
    };
  if (name == "inverse_time")
    return [decay = options.number("decay"), every = interval(options)](const Place& place, double) {
      return 1 / (1 + decay * place.epochs() / every);
    };
  if (name == "root_product")
    return [first = static_cast<std::size_t>(options.whole("first")), span = options.number("span")](
               const Place& place, double) { return root_product(place.epoch(), first, span); };
  if (name == "one_cycle")
    return [rises = options.number("rises"), divide = options.number("divide"), end = options.number("divide_end"),
            linear = options.flag("linear")](const Place& place, double) {
      return one_cycle(place, rises, divide, end, linear);
    };
  return [](const Place&, double) { return 1.0; };  // constant; auto and plateau change state_.factor
}

Schedule::Schedule(const ScheduleSettings& settings)
    : lr_(settings.lr),
      scale_(settings.scale),
      warmup_(settings.warmup),
      warmup_steps_(settings.warmup_steps),
      linear_(settings.rise == "linear") {
  const Options options(choose("schedule", table, settings.name), settings.options);
  if (!linear_ && settings.rise != "power") refuse("rise=" + settings.rise + ": expected linear or power");
  if (scale_ <= 0) refuse("scale=" + std::to_string(scale_) + ": expected a number above 0");
  if (warmup_ < 0) refuse("warmup=" + std::to_string(warmup_) + ": expected a number from 0 up");
  if (warmup_ > 0 && warmup_steps_ > 0) refuse("warmup and warmup_steps are two ways to say one thing: leave one out");
  if (settings.name == "one_cycle" && (warmup_ > 0 || warmup_steps_ > 0))
    refuse("one_cycle rises by itself: leave the warm-up out, and say schedule.rises=0.1, for one");
  curve_ = curve_of(options);
  if (settings.name == "plateau")
    plateau_ = {.factor = options.number("factor"),
                .patience = static_cast<double>(options.whole("patience")),
                .threshold = options.number("threshold"),
                .cooldown = static_cast<double>(options.whole("cooldown")),
                .least = options.number("least")};
  if (settings.name == "auto")
    automatic_ = {static_cast<std::size_t>(options.whole("records")), static_cast<std::size_t>(options.whole("first")),
                  options.number("threshold"), options.number("divide")};
}

double Schedule::rate(const Place& place) const {
  const double at = static_cast<double>(place.step);
  const double steps =
      warmup_steps_ > 0 ? static_cast<double>(warmup_steps_) : warmup_ * static_cast<double>(place.steps_per_epoch);
  const double warm = std::min(steps, static_cast<double>(place.total_steps));
  const double high = lr_ * scale_;
  if (at < warm) {
    if (linear_) return high * (at + 1) / (warm + 1);
    const double done = warmup_steps_ > 0 ? at / warm : static_cast<double>(place.epoch()) / warmup_;
    return lr_ * std::pow(scale_, std::min(1.0, done));
  }
  return high * curve_(place, warm) * state_.factor;
}

/// Applies the rule of torch's ReduceLROnPlateau for a value that should fall. ScheduleState::errors holds the best
/// value, the number of epochs since then without a better one, and the number of cool-down epochs that are left.
bool Schedule::observe_plateau(double value) {
  std::vector<double>& kept = state_.errors;
  if (kept.size() != 3) kept = {std::numeric_limits<double>::infinity(), 0, 0};
  double &best = kept[0], &bad = kept[1], &cooling = kept[2];
  if (std::isfinite(best) ? value < best * (1 - plateau_.threshold) : std::isfinite(value)) {
    best = value;
    bad = 0;
  } else {
    ++bad;
  }
  if (cooling > 0) {
    --cooling;
    bad = 0;
  }
  if (bad <= plateau_.patience) return false;
  state_.factor = std::max(state_.factor * plateau_.factor, plateau_.least);
  cooling = plateau_.cooldown;
  bad = 0;
  return true;
}

bool Schedule::observe(std::size_t epoch, double validation_error) {
  if (!observes()) return false;
  if (plateau_.factor > 0) return observe_plateau(validation_error);
  state_.errors.push_back(validation_error);
  if (state_.errors.size() > automatic_.records) state_.errors.erase(state_.errors.begin());
  if (epoch < automatic_.first || state_.errors.size() < automatic_.records) return false;
  if (state_.errors.front() - state_.errors.back() >= automatic_.threshold) return false;
  state_.factor /= automatic_.divide;
  state_.errors.clear();
  return true;
}

Schedule make_schedule(const Config& config) {
  return Schedule({.name = config.schedule.name,
                   .options = config.schedule.options,
                   .lr = base_learning_rate(config),
                   .scale = config.schedule.scale,
                   .warmup = config.schedule.warmup,
                   .warmup_steps = static_cast<std::size_t>(config.schedule.warmup_steps),
                   .rise = config.schedule.rise});
}

}  // namespace tutti::engine
