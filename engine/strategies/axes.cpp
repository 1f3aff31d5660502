#include "engine/strategies/axes.hpp"

#include <algorithm>
#include <charconv>
#include <initializer_list>
#include <utility>

#include "engine/config.hpp"
#include "engine/config/tables.hpp"

namespace tutti::engine {
namespace {

using Kind = OptionInfo::Kind;

/// The names of an axis's values, in the order of its enumerators.
using Words = std::initializer_list<std::string_view>;
const Words inner_words{"keep", "average", "reset"}, when_words{"every", "probability"},
    what_words{"gradients", "parameters", "deltas"}, how_words{"allreduce", "pairs", "server"},
    merge_words{"mean", "sum", "tokens", "radial", "elastic", "vote", "gossip"},
    outer_words{"none", "sgd", "heavyball", "nesterov", "delayed-nesterov", "adam", "gem"},
    apply_words{"blocking", "next", "late", "eager"}, members_words{"all", "quorum", "any"},
    judged_words{"exchange", "outer", "mean"};

template <class Choice>
std::string_view word_of(Words words, Choice choice) {
  return *(words.begin() + static_cast<std::ptrdiff_t>(choice));
}

template <class Choice>
void read(Choice& into, const Options& options, std::string_view key, Words words) {
  std::string text = options.text(key);
  for (char& c : text)
    if (c == '_' && key == "outer") c = '-';
  if (key == "members" && (text == "true" || text == "false")) text = text == "true" ? "all" : "any";  // synchronous
  std::string known;
  for (auto word = words.begin(); word != words.end(); ++word) {
    if (*word == text) {
      into = static_cast<Choice>(word - words.begin());
      return;
    }
    known += (word == words.begin() ? "" : word + 1 == words.end() ? " or " : ", ") + std::string(*word);
  }
  refuse("strategy." + std::string(key) + "=" + text + ": expected " + known);
}

}  // namespace

namespace {

std::string number(double value) {
  char text[32];
  return std::string(text, std::to_chars(text, text + sizeof text, value).ptr);
}

}  // namespace

std::vector<OptionInfo> axis_options() {
  std::vector<OptionInfo> all{
      {"inner", Kind::text, "keep", "what the optimizer remembers, at a sync: keep, average or reset"},
      {"inner_every", Kind::whole, "1", "average or reset it at every so-manieth sync", 1},
      {"when", Kind::text, "every", "sync after every so many steps, or in a step with some probability"},
      {"every", Kind::whole, "1", "steps of a rank's own from one sync to the next (H)", 1},
      {"probability", Kind::number, "0.01", "of a sync in a step, with when=probability", 0},
      {"fragments", Kind::whole, "1", "parts of the network that are synced in turns, each after every so many steps",
       1},
      {"dense_steps", Kind::whole, "0", "steps that average gradients, before the others begin", 0},
      {"what", Kind::text, "gradients", "what travels: gradients, parameters, or deltas since the last sync"},
      {"codec", Kind::text, "none",
       "as what it travels: none, f16, bf16, int8, e3m0, 2bit, sign, top_k, mask, dct or power_sgd, with an argument "
       "as "
       "in int8:64, top_k:2/64+2bit, mask:0.005, dct:32/64, power_sgd:2"},
      {"chunk", Kind::whole, "64", "values that share a scale in int8, e3m0, 2bit and sign", 1},
      {"top_k", Kind::number, "0.01", "top_k: the part of a bucket that is sent, the largest; above 0, at most 1"},
      {"mask", Kind::number, "0.005", "mask: the part of the values that is sent, others in each step"},
      {"power_rank", Kind::whole, "2", "power_sgd: columns of the two matrices that a gradient becomes", 1},
      {"least_saving", Kind::number, "1", "power_sgd: what would not become so many times smaller goes as it is", 0},
      {"feedback", Kind::number, "1", "of what a codec left out, the part that is added the next time", 0},
      {"sparta", Kind::number, "0", "besides, in each step, this part of the parameters becomes its mean (SPARTA)", 0},
      {"how", Kind::text, "allreduce", "over all ranks, in groups drawn for each sync (pairs), or over a server"},
      {"group", Kind::whole, "2", "ranks of each group, with how=pairs", 2},
      {"merge", Kind::text, "mean",
       "mean, sum, tokens (by samples), radial (mean length, mean direction), elastic, vote (majority of signs) or "
       "gossip"},
      {"elastic", Kind::number, "0.5", "merge=elastic: the part of the way to the others", 0},
      {"outer", Kind::text, "none",
       "step by the merged delta: none, sgd, heavyball, nesterov, delayed-nesterov or adam"},
      {"outer_lr", Kind::number, "1", "its rate", 0},
      {"outer_momentum", Kind::number, "0", "and its momentum", 0, 1},
      {"outer_every", Kind::whole, "1", "delayed-nesterov: syncs from one momentum step to the next (N)", 1},
      {"consensus", Kind::number, "0", "pairs of deltas: the pull to the group's mean", 0},
      {"apply", Kind::text, "blocking", "at once, at the next step, so many steps late, or eager"},
      {"delay", Kind::whole, "0", "apply=late: steps from sending to applying (tau)", 0},
      {"alpha", Kind::number, "0", "of a rank's own parameters, the part that stays in what it goes on from", 0},
      {"members", Kind::text, "all", "who takes part in a sync: all, a quorum, or any"},
      {"quorum", Kind::whole, "0", "members=quorum: at least so many", 0},
      {"judged", Kind::text, "exchange",
       "what is validated and kept: what an exchange made then gives, the outer copy, or the ranks' mean; from the "
       "last "
       "two, ranks go on as if nobody had looked"},
      {"overlap", Kind::flag, "true", "gradients leave while backward runs"},
      {"reorder", Kind::flag, "true", "fill buckets anew, after the first step, as gradients become ready"},
      {"scale_lr", Kind::flag, "false", "multiply the learning rate by the number of ranks"},
  };
  for (OptionInfo& each : server_axis_options()) all.push_back(std::move(each));
  return all;
}

namespace {

void read_numbers(Axes& axes, const Options& options, const Options::Given& given) {
  axes.inner_every = options.whole("inner_every");
  axes.every = options.whole("every");
  axes.probability = options.number("probability");
  axes.fragments = options.whole("fragments");
  axes.dense_steps = options.whole("dense_steps");
  axes.codec = parse_codec(options.text("codec"), options);
  axes.sparta = options.number("sparta");
  axes.group = options.whole("group");
  axes.elastic = options.number("elastic");
  axes.outer_lr = options.number("outer_lr");
  axes.outer_momentum = options.number("outer_momentum");
  axes.outer_every = options.whole("outer_every");
  axes.consensus = options.number("consensus");
  axes.delay = options.whole("delay");
  axes.alpha = options.number("alpha");
  axes.quorum = options.whole("quorum");
  axes.server = read_server_axes(options);
  if (given.contains("elastic") && !given.contains("elastic_force")) axes.server.elastic_force = 0;
  axes.overlap = options.flag("overlap");
  axes.reorder = options.flag("reorder");
  axes.scale_lr = options.flag("scale_lr");
}

void check_gradients(const Axes& axes) {
  if (axes.every > 1 || axes.fragments > 1)
    refuse("strategy.every=" + std::to_string(axes.every) +
           ": gradients travel in every step; say strategy=local-sgd or diloco, or make batch.global larger, with "
           "batch.micro");
  if (axes.outer != Axes::Outer::none || axes.apply != Axes::Apply::blocking || axes.merge != Axes::Merge::mean ||
      axes.when != Axes::When::every || axes.alpha > 0)
    refuse(
        "strategy.what=gradients: the optimizer steps by their mean; for another merge, outer or apply say "
        "strategy.what=deltas");
}

void check_times(const Axes& axes) {
  if (axes.when == Axes::When::probability && !(axes.probability > 0 && axes.probability <= 1))
    refuse("strategy.probability is above 0 and at most 1");
  if (axes.fragments > axes.every)
    refuse("strategy.fragments=" + std::to_string(axes.fragments) + " are synced in " + std::to_string(axes.every) +
           " steps: make strategy.every at least as large");
  if (axes.delay > 0 && axes.apply != Axes::Apply::late)
    refuse("strategy.delay is for strategy.apply=late: say so, or leave it out");
  if (axes.apply == Axes::Apply::late && axes.delay >= axes.every / axes.fragments)
    refuse("strategy.delay=" + std::to_string(axes.delay) +
           ": make it less than strategy.every / strategy.fragments, " + std::to_string(axes.every / axes.fragments));
  if (axes.when == Axes::When::probability && (axes.fragments > 1 || axes.apply != Axes::Apply::blocking))
    refuse("strategy.when=probability is for one fragment and strategy.apply=blocking");
}

void check_parts(const Axes& axes) {
  const bool deltas = axes.what == Axes::What::deltas;
  if (!deltas && (axes.outer != Axes::Outer::none || axes.apply != Axes::Apply::blocking))
    refuse(
        "strategy.outer and strategy.apply are for strategy.what=deltas: parameters take the place of others at once");
  if (!deltas && axes.judged == Axes::Judged::outer)
    refuse("strategy.judged=outer is for strategy.what=deltas, which have an outer copy: say mean or exchange");
  if (axes.judged == Axes::Judged::exchange &&
      (axes.fragments > 1 || axes.apply == Axes::Apply::late || axes.apply == Axes::Apply::eager || axes.alpha > 0 ||
       axes.how == Axes::How::pairs || axes.codec.kind == CodecChoice::Kind::mask))
    refuse("strategy.judged=exchange: one exchange does not make the ranks equal by this strategy; say mean or outer");
  if (axes.judged == Axes::Judged::outer && (axes.how == Axes::How::pairs || axes.apply == Axes::Apply::eager))
    refuse("strategy.judged=outer: ranks have outer copies of their own by this strategy; say mean");
  if (axes.apply == Axes::Apply::eager && axes.merge != Axes::Merge::mean)
    refuse("strategy.apply=eager is for strategy.merge=mean: the rank's own part of it is known");
  if (axes.sparta > 1) refuse("strategy.sparta is a part: make it at most 1");
  if (axes.alpha > 1) refuse("strategy.alpha is a part: make it at most 1");
  if (axes.merge == Axes::Merge::radial && !deltas)
    refuse("strategy.merge=radial is for strategy.what=deltas: lengths of parameters mean nothing");
  if (axes.merge == Axes::Merge::vote && !deltas)
    refuse("strategy.merge=vote is for strategy.what=deltas: signs of parameters mean nothing");
}

void check_ways(const Axes& axes) {
  const bool pairs = axes.how == Axes::How::pairs, gossip = axes.merge == Axes::Merge::gossip;
  if (gossip && (!pairs || axes.what != Axes::What::parameters))
    refuse("strategy.merge=gossip is for strategy.how=pairs and strategy.what=parameters");
  if (axes.merge == Axes::Merge::elastic && (!pairs || axes.what != Axes::What::parameters))
    refuse("strategy.merge=elastic is for strategy.how=pairs and strategy.what=parameters");
  if (pairs && !gossip && axes.when == Axes::When::probability)
    refuse("strategy.when=probability with pairs is for strategy.merge=gossip");
  if (pairs &&
      (axes.codec.kind != CodecChoice::Kind::none || axes.fragments > 1 || axes.apply != Axes::Apply::blocking))
    refuse("strategy.how=pairs exchanges all at once, as it is: leave codec, fragments and apply out");
  if (pairs && axes.merge != Axes::Merge::mean && axes.merge != Axes::Merge::elastic && !gossip)
    refuse("strategy.how=pairs is for strategy.merge=mean, elastic or gossip");
  if (pairs && axes.what == Axes::What::deltas && axes.outer != Axes::Outer::heavyball &&
      axes.outer != Axes::Outer::sgd)
    refuse("strategy.how=pairs is for strategy.outer=heavyball or sgd");
  if (axes.sparta > 0 && (pairs || axes.what == Axes::What::gradients))
    refuse("strategy.sparta is for parameters or deltas over strategy.how=allreduce: leave it out");
  if (!pairs && axes.consensus > 0) refuse("strategy.consensus is for strategy.how=pairs: leave it out");
  if (axes.how != Axes::How::server && (axes.members != Axes::Members::all || axes.outer == Axes::Outer::gem))
    refuse("a quorum, members that come and go, and gem are for strategy.how=server: leave them out");
}

/// A condition without which an option has no effect, even if its value is not the default.
struct Need {
  std::string_view keys;  ///< separated by blanks
  bool (*holds)(const Axes& axes);
  std::string_view what;  ///< the condition in words, for the error
};

template <auto... Kinds>
bool has_codec(const Axes& axes) {
  return ((axes.codec.kind == Kinds) || ...);
}

using Codec = CodecChoice::Kind;
constexpr Need needs[] = {
    {"probability", [](const Axes& axes) { return axes.when == Axes::When::probability; }, "strategy.when=probability"},
    {"every", [](const Axes& axes) { return axes.when == Axes::When::every; }, "strategy.when=every"},
    {"inner judged dense_steps",
     [](const Axes& axes) { return axes.what != Axes::What::gradients || axes.how == Axes::How::server; },
     "ranks that make steps of their own, as with strategy=local-sgd"},
    {"inner_every", [](const Axes& axes) { return axes.inner != Axes::Inner::keep; },
     "strategy.inner=average or reset"},
    {"chunk", has_codec<Codec::int8, Codec::e3m0, Codec::two_bit, Codec::sign>,
     "strategy.codec=int8, e3m0, 2bit or sign"},
    {"top_k", has_codec<Codec::top_k>, "strategy.codec=top_k"},
    {"mask", has_codec<Codec::mask>, "strategy.codec=mask"},
    {"power_rank least_saving", has_codec<Codec::power_sgd>, "strategy.codec=power_sgd"},
    {"feedback", [](const Axes& axes) { return !has_codec<Codec::none, Codec::f16, Codec::bf16>(axes); },
     "a strategy.codec that leaves something out"},
    {"scale_lr", [](const Axes& axes) { return axes.how == Axes::How::allreduce; }, "strategy.how=allreduce"},
    {"group", [](const Axes& axes) { return axes.how == Axes::How::pairs; }, "strategy.how=pairs"},
    {"elastic elastic_force elastic_here", [](const Axes& axes) { return axes.merge == Axes::Merge::elastic; },
     "strategy.merge=elastic, as with strategy=easgd"},
    {"outer_lr outer_momentum", [](const Axes& axes) { return axes.outer != Axes::Outer::none; },
     "a strategy.outer, as with strategy=diloco"},
    {"outer_every", [](const Axes& axes) { return axes.outer == Axes::Outer::delayed_nesterov; },
     "strategy.outer=delayed-nesterov"},
    {"quorum grace", [](const Axes& axes) { return axes.members == Axes::Members::quorum; }, "strategy.members=quorum"},
    {"overlap reorder", [](const Axes& axes) { return axes.what == Axes::What::gradients; },
     "gradients, as with strategy=bsp"},
    {"kappa", [](const Axes& axes) { return axes.outer == Axes::Outer::gem; }, "strategy.outer=gem"},
    {"most_stale", [](const Axes& axes) { return axes.server.stale == "reject"; }, "strategy.stale=reject"},
};

/// Throws Error{invalid} for options that are given but would change nothing.
void check_effects(const Axes& axes, const ChoiceInfo& preset, const Options::Given& given) {
  const std::string codec = Options(preset, given).text("codec");
  for (const char* key : {"chunk", "top_k", "mask", "power_rank"})
    if (const auto option = given.find(key);
        codec.find(':') != codec.npos && option != given.end() &&
        option->second != std::ranges::find(preset.options, std::string_view(key), &OptionInfo::key)->value)
      refuse("strategy." + std::string(key) + " changes nothing with strategy.codec=" + codec +
             ", which has a number of its own: say another codec, or leave it out");
  for (const Need& need : needs) {
    if (need.holds(axes)) continue;
    for (const std::string_view key : words(need.keys)) {
      const auto option = given.find(key);
      const auto info = std::ranges::find(preset.options, key, &OptionInfo::key);
      if (option == given.end() || info == preset.options.end() || option->second == info->value) continue;
      refuse("strategy." + std::string(key) + "=" + option->second + " changes nothing with strategy=" + axes.preset +
             ": it is for " + std::string(need.what) + "; say so, or leave it out");
    }
  }
}

}  // namespace

Axes axes_of(const Config& config) {
  const std::string name = preset_name(config.strategy.name);
  const ChoiceInfo& preset = choose("strategy", strategy_table(), name);
  const Options options(preset, config.strategy.options);
  Axes axes;
  axes.preset = name;
  read(axes.inner, options, "inner", inner_words);
  read(axes.when, options, "when", when_words);
  read(axes.what, options, "what", what_words);
  read(axes.how, options, "how", how_words);
  read(axes.merge, options, "merge", merge_words);
  read(axes.outer, options, "outer", outer_words);
  read(axes.apply, options, "apply", apply_words);
  read(axes.members, options, "members", members_words);
  read(axes.judged, options, "judged", judged_words);
  read_numbers(axes, options, config.strategy.options);
  if (axes.how == Axes::How::server) {
    check_server_axes(axes);
    check_effects(axes, preset, config.strategy.options);
    return axes;
  }
  for (const OptionInfo& each : server_axis_options())
    if (const auto given = config.strategy.options.find(each.key);
        given != config.strategy.options.end() && given->second != each.value)
      refuse("strategy." + std::string(each.key) +
             " is for training by masters: say strategy=downpour, easgd or gem, for one, or leave it out");
  if (axes.what == Axes::What::gradients) {
    check_gradients(axes);
  } else {
    check_times(axes);
    check_parts(axes);
  }
  check_ways(axes);
  check_effects(axes, preset, config.strategy.options);
  return axes;
}

void Axes::set(std::string_view key, double value) {
  const std::pair<std::string_view, double*> live[] = {{"outer_lr", &outer_lr},   {"outer_momentum", &outer_momentum},
                                                       {"consensus", &consensus}, {"elastic", &elastic},
                                                       {"alpha", &alpha},         {"probability", &probability}};
  for (const auto& [name, number] : live) {
    if (name != key) continue;
    const bool part = name == "alpha" || name == "probability";
    if (!(value >= 0) || (part && value > 1) || (name == "outer_momentum" && value >= 1))
      refuse("strategy." + std::string(key) + " cannot become " + std::to_string(value));
    *number = value;
    return;
  }
  refuse("strategy." + std::string(key) +
         " is not a number that may change in a run: expected outer_lr, outer_momentum, consensus, elastic, alpha or "
         "probability");
}

std::vector<std::pair<std::string, std::string>> Axes::table() const {
  const auto with = [](std::string_view word, const std::string& numbers) {
    return std::string(word) + (numbers.empty() ? "" : ", " + numbers);
  };
  std::string times =
      when == When::every ? "every " + std::to_string(every) : "with probability " + number(probability);
  if (fragments > 1) times += ", in " + std::to_string(fragments) + " fragments by turns";
  if (dense_steps > 0) times += ", after " + std::to_string(dense_steps) + " steps of gradients";
  std::string step;
  if (outer != Outer::none && outer != Outer::gem) step = "rate " + number(outer_lr);
  if (outer_momentum > 0) step += ", momentum " + number(outer_momentum);
  if (outer == Outer::delayed_nesterov) step += ", every " + std::to_string(outer_every);
  if (consensus > 0) step += ", consensus " + number(consensus);
  std::string time = delay > 0 ? std::to_string(delay) + " steps" : "";
  if (alpha > 0) time += (time.empty() ? "" : ", ") + std::string("alpha ") + number(alpha);
  const std::string left = codec.feedback > 0 ? "feedback " + number(codec.feedback) : "";
  return {
      {"inner", with(word_of(inner_words, inner), inner == Inner::keep ? "" : "every " + std::to_string(inner_every))},
      {"when", times},
      {"what", std::string(word_of(what_words, what))},
      {"codec", with(codec.describe(), left)},
      {"how", with(word_of(how_words, how), how == How::pairs ? "of " + std::to_string(group) : "")},
      {"merge", with(word_of(merge_words, merge), merge == Merge::elastic ? number(elastic) : "")},
      {"outer", with(word_of(outer_words, outer), step)},
      {"apply", with(word_of(apply_words, apply), time)},
      {"members", with(word_of(members_words, members), members == Members::quorum ? std::to_string(quorum) : "")},
      {"judged", std::string(word_of(judged_words, judged))}};
}

std::string Axes::name() const {
  std::string text = preset;
  if (what != What::gradients) text += when == When::every ? " every " + std::to_string(every) : " now and then";
  if (dense_steps > 0) text += " after " + std::to_string(dense_steps);
  if (fragments > 1) text += " in " + std::to_string(fragments) + " fragments";
  if (codec.kind != CodecChoice::Kind::none) text += " by " + codec.describe();
  if (sparta > 0) text += " with sparta";
  if (outer != Outer::none) text += ", " + std::string(word_of(outer_words, outer));
  if (apply != Apply::blocking) text += ", " + std::string(word_of(apply_words, apply));
  if (delay > 0) text += " by " + std::to_string(delay);
  return text;
}

}  // namespace tutti::engine
