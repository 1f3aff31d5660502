// The presets: training strategies by their names in the literature, as values of the axes. Without LibTorch.
//
// A new preset is a row of the table in presets.cpp: a name, a sentence, and the axes that differ from
// axis_options(). If its axes can be combined already, that is all; `tutti train --explain-strategy` prints it, and
// tests/engine/presets_test.cpp trains with it. A new value of an axis is an enumerator in axes.hpp, its name in
// axes.cpp, and the code that acts on it: an outer rule in outer_rules.hpp, a merge in merge.hpp, a codec in
// nn/encoding.cpp. A new `how` is a class derived from Strategy, or from Local if ranks make steps of their own,
// and a line in make_strategy(), which chooses by `how` and `what`.
#include <algorithm>
#include <cctype>
#include <vector>

#include "engine/config/tables.hpp"
#include "engine/strategies/axes.hpp"

namespace tutti::engine {
namespace {

struct Setting {
  std::string_view key, value;
};

struct Preset {
  std::string_view name, meaning;
  std::vector<Setting> settings;
};

/// Returns the settings of presets whose ranks step an outer copy by the mean of their deltas; `more` overrides them.
std::vector<Setting> outer(std::vector<Setting> more) {
  std::vector<Setting> all{{"what", "deltas"},  {"every", "64"},           {"outer", "nesterov"},
                           {"outer_lr", "0.7"}, {"outer_momentum", "0.9"}, {"judged", "outer"}};
  for (const Setting& each : more) {
    const auto same = std::ranges::find(all, each.key, &Setting::key);
    if (same != all.end())
      same->value = each.value;
    else
      all.push_back(each);
  }
  return all;
}

/// Returns the settings of presets with masters, followed by `more`.
std::vector<Setting> server(std::vector<Setting> more) {
  more.insert(more.begin(), {{"how", "server"}, {"judged", "outer"}});
  if (std::ranges::find(more, "members", &Setting::key) == more.end()) more.push_back({"members", "any"});
  return more;
}

std::vector<Preset> server_presets() {
  return {
      {"downpour", "masters step by the gradients that workers push at their own speed (Dean 2012)", server({})},
      {"asgd", "masters add up what workers change (Theano-MPI)", server({{"what", "deltas"}})},
      {"easgd", "workers and a centre pull one another (Zhang 2015)",
       server({{"what", "parameters"}, {"merge", "elastic"}, {"elastic_force", "0.9"}, {"every", "10"}})},
      {"dp-easgd", "the same, of workers of two ranks that average their gradients",
       server({{"what", "parameters"},
               {"merge", "elastic"},
               {"elastic_force", "0.9"},
               {"every", "10"},
               {"processes", "2"}})},
      {"gem", "gradient energy matching: masters add what workers' momentum has beyond the centre's (Cerri 2018)",
       server({{"what", "deltas"}, {"outer", "gem"}, {"outer_lr", "0.1"}, {"outer_momentum", "0.9"}})},
      {"decoupled-diloco",
       "diloco by masters that wait for a quorum, weighted by samples, while workers go on (Douillard 2026)",
       server({{"what", "deltas"},
               {"every", "24"},
               {"merge", "tokens"},
               {"outer", "nesterov"},
               {"outer_lr", "0.7"},
               {"outer_momentum", "0.9"},
               {"members", "quorum"},
               {"apply", "late"},
               {"delay", "2"},
               {"alpha", "0.5"}})},
  };
}

const std::vector<Preset>& presets() {
  static const std::vector<Preset> all = [] {
    std::vector<Preset> some{
        {"bsp", "the mean of the gradients, in every step, while backward runs", {}},
        {"dsgd", "the same in one piece, after backward", {{"overlap", "false"}}},
        {"local-sgd",
         "steps of each rank's own, then the mean of the parameters (Stich 2019)",
         {{"what", "parameters"}, {"every", "8"}}},
        {"post-local-sgd",
         "bsp for the first dense_steps, then local-sgd (Lin 2020)",
         {{"what", "parameters"}, {"every", "8"}, {"dense_steps", "100"}}},
        {"diloco", "an outer Nesterov step by the mean of what the ranks changed (Douillard 2023)", outer({})},
        {"streaming-diloco", "the same fragment by fragment, in four bits, applied later (Douillard 2025)",
         outer({{"fragments", "4"},
                {"codec", "e3m0"},
                {"feedback", "0"},
                {"apply", "late"},
                {"delay", "2"},
                {"alpha", "0.5"}})},
        {"eager-diloco", "the last sync's mean with the rank's own fresh part, while the next mean travels (Kale 2025)",
         outer({{"outer_momentum", "0.5"}, {"apply", "eager"}, {"judged", "mean"}})},
        {"noloco", "pairs of ranks, drawn anew for each sync, instead of all (Kolehmainen 2025)",
         outer({{"how", "pairs"},
                {"outer", "heavyball"},
                {"outer_momentum", "0.5"},
                {"consensus", "0.7"},
                {"judged", "mean"}})},
        {"sparseloco",
         "the largest of each chunk in two bits, with error feedback in the place of outer momentum (Sarfi 2025)",
         outer({{"codec", "top_k:2/64+2bit"}, {"feedback", "0.95"}, {"outer", "sgd"}, {"outer_momentum", "0"}})},
        {"sparta",
         "the mean of a few parameters, others in each step",
         {{"what", "parameters"}, {"codec", "mask:0.005"}, {"feedback", "0"}, {"judged", "mean"}}},
        {"gosgd",
         "a rank sends its parameters to another one, now and then, which merges them by weight (Blot 2016)",
         {{"what", "parameters"},
          {"how", "pairs"},
          {"when", "probability"},
          {"probability", "0.01"},
          {"merge", "gossip"},
          {"judged", "mean"}}},
        {"gradients", "another name of bsp", {}},
        {"parameters", "local-sgd that exchanges in every step unless told otherwise", {{"what", "parameters"}}},
        {"avg",
         "the same at the learning rate times the ranks, as Theano-MPI's mode of that name",
         {{"what", "parameters"}, {"scale_lr", "true"}}},
        {"cdd",
         "the sum of what the ranks changed, applied at the next step (Theano-MPI)",
         {{"what", "deltas"}, {"merge", "sum"}, {"apply", "next"}}},
    };
    for (Preset& each : server_presets()) some.push_back(std::move(each));
    return some;
  }();
  return all;
}

/// The options of each preset.
struct Table {
  Table() {
    for (const Preset& preset : presets()) {
      options.push_back(axis_options());
      for (const Setting& each : preset.settings)
        std::ranges::find(options.back(), each.key, &OptionInfo::key)->value = each.value;
    }
    for (std::size_t i = 0; i < options.size(); ++i)
      choices.push_back({presets()[i].name, presets()[i].meaning, options[i]});
  }
  std::vector<std::vector<OptionInfo>> options;
  std::vector<ChoiceInfo> choices;
};

const Table& table() {
  static const Table made;
  return made;
}

}  // namespace

std::span<const ChoiceInfo> strategy_table() { return table().choices; }

std::span<const OptionInfo> shared_axes() { return table().options.front(); }

std::string preset_name(std::string_view given) {
  std::string name(given);
  for (char& c : name) c = c == '_' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return name == "sgd" ? "downpour" : name;  // the name in mpi_learn's --mode
}

}  // namespace tutti::engine
