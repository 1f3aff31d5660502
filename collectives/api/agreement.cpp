// Agreement: see agreement.hpp.
#include "collectives/api/agreement.hpp"

#include <algorithm>
#include <sstream>

#include "collectives/bootstrap/store_rules.hpp"
#include "collectives/route/rules.hpp"
#include "collectives/route/tuning.hpp"
#include "transports/core/throttle.hpp"
#include "tutti/log.hpp"
#include "tutti/provider/provider.hpp"
#include "tutti/store.hpp"

namespace tutti {
namespace {

bool is_mere_transport(std::string_view name) {
  return std::ranges::any_of(providers(),
                             [&](const Provider* one) { return one->name == name && one->algorithms == nullptr; });
}

/// Warns of the skipped rules of a file that the user named. The default file is not reported, since it may name
/// backends that are not installed here.
void tell_of_unread(const std::string& tuned, const Settings& settings, const std::vector<std::string>& backends) {
  const std::string& path = settings.tuning;
  Throttle throttle;
  rules::parse_leniently(tuned, path, {backends, settings}, [&](int line, std::string_view why) {
    throttle.log(LogLevel::warn, path + ":" + std::to_string(line) + " is passed over: " + std::string(why));
  });
}

// Returns the sources of rules as text: "=gloo,mpi,\n" and the measured rules, or "!" and the reason why they cannot be
// read. Also parses the user's rules: if rank 0 cannot use them, the text holds that error, and all ranks throw it.
std::string own_rule_sources(const Settings& settings) {
  try {
    std::vector<std::string> backends;
    std::string text = "=";
    for (const std::string& name : provider_names(settings))
      if (!is_mere_transport(name)) text += backends.emplace_back(name) + ",";
    const std::string tuned = read_tuning(settings);
    const Selector checked(settings, {}, backends);
    if (settings.tuning != "auto") tell_of_unread(tuned, settings, backends);
    return text + '\n' + tuned;
  } catch (const Error& error) {
    return std::string("!") + error.what();
  }
}

RuleSources read_rule_sources(const std::string& text) {
  if (text.starts_with('!')) throw Error(Code::invalid, text.substr(1));
  const auto end = text.find('\n');
  return {words_of(text.substr(1, end - 1)), text.substr(end + 1)};
}

std::string settings_of_first(Store& store, double patience) {
  try {
    return store.wait_unless("settings", departure_key(0), deadline_in(Seconds(patience)));
  } catch (const Error& error) {
    if (error.code() != Code::timeout) throw;
    constexpr int first = 0;
    throw store_rules::not_joined({&first, 1}, patience);
  }
}

}  // namespace

std::vector<std::string> words_of(const std::string& list) {
  std::vector<std::string> found;
  std::istringstream in(list);
  for (std::string word; std::getline(in, word, ',');)
    if (!word.empty()) found.push_back(word);
  return found;
}

bool is_built_in(std::string_view name) {
  return std::ranges::any_of(providers(), [&](const Provider* one) { return one->name == name; });
}

// Rank 0 publishes one value in the store: a line for each setting that must be equal on all ranks, in the order of the
// table, and then its rule sources.
RuleSources agree_with_first(const Bootstrap& bootstrap, Settings& settings) {
  if (bootstrap.size == 1) return read_rule_sources(own_rule_sources(settings));
  std::vector<const SettingInfo*> all;
  for (const SettingInfo& info : setting_table())
    if (info.rules.agreed) all.push_back(&info);
  if (bootstrap.rank == 0) {
    const std::string sources = own_rule_sources(settings);
    std::string lines;
    for (const SettingInfo* const info : all) lines += value_text(settings, *info) + '\n';
    bootstrap.store->set("settings", lines + sources);
    return read_rule_sources(sources);
  }
  std::istringstream text(settings_of_first(*bootstrap.store, settings.connect_timeout));
  for (const SettingInfo* const info : all) {
    std::string first;
    std::getline(text, first);
    const std::string mine = value_text(settings, *info);
    if (first == mine) continue;
    log(LogLevel::info, std::string(info->key) + " is '" + first + "' as on rank 0, not '" + mine + "'",
        bootstrap.rank);
    settings.set(info->key, first, "rank 0");
  }
  return read_rule_sources({std::istreambuf_iterator<char>(text), {}});
}

}  // namespace tutti
