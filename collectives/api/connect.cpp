// Connecting the ranks of a job: the choice of a transport for every pair of ranks.
//
// First all ranks adopt rank 0's value of the settings whose rows say so. Every rank then publishes a card: its host,
// and for each provider whether it is viable and its domain. From the cards all ranks derive, without further messages,
// which pairs each provider may connect. Providers connect in order of preference, and each takes the pairs that no
// earlier one connected.
#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <span>
#include <sstream>

#include "collectives/bootstrap/store_rules.hpp"
#include "collectives/route/rules.hpp"
#include "collectives/route/tuning.hpp"
#include "collectives/runtime/context.hpp"
#include "transports/core/host.hpp"
#include "transports/core/printable.hpp"
#include "transports/core/throttle.hpp"
#include "transports/decorators/routed.hpp"
#include "transports/decorators/shaped.hpp"
#include "tutti/log.hpp"
#include "tutti/provider/provider.hpp"
#include "tutti/store.hpp"

namespace tutti {
namespace {

struct Card {
  Place place;
  std::string cores = {};                                   // that the rank may run on
  std::map<std::string, std::string, std::less<>> domains;  // by viable provider
  std::map<std::string, std::string, std::less<>> reasons;  // why the other providers are not viable
};

std::vector<std::string> words(const std::string& list) {
  std::vector<std::string> found;
  std::istringstream in(list);
  for (std::string word; std::getline(in, word, ',');)
    if (!word.empty()) found.push_back(word);
  return found;
}

// A provider that this rank wants to use. If it is not viable here, the reason is in the card for the other ranks
// too.
struct Wanted {
  std::string name;
  Found found;
};

Wanted wanted(const std::string& name, const Settings& settings) {
  Found found = find_provider(name, settings);
  if (found.provider != nullptr && found.provider->connect == nullptr)
    throw Error(Code::invalid, "'" + name + "' is a backend and no transport; name it in TUTTI_BACKEND");
  if (found.provider == nullptr)
    throw Error(Code::invalid,
                "there is no transport '" + name + "'; TUTTI_TRANSPORT takes a list (" + found.reason + ")");
  return {name, std::move(found)};
}

// The sources of selection rules besides the settings. Serialized as "=gloo,mpi\n" and the measured rules, or as "!"
// and the reason why they cannot be read.
struct RuleSources {
  std::vector<std::string> backends;
  std::string tuned;
};

bool is_built_in(std::string_view name) {
  return std::ranges::any_of(providers(), [&](const Provider* one) { return one->name == name; });
}

bool is_mere_transport(std::string_view name) {
  return std::ranges::any_of(providers(),
                             [&](const Provider* one) { return one->name == name && one->algorithms == nullptr; });
}

/// Reports rules that were skipped, for a file named by the user. A file found by default may name backends that are
/// not installed here.
void tell_of_unread(const std::string& tuned, const Settings& settings, const std::vector<std::string>& backends) {
  const std::string& path = settings.tuning;
  Throttle throttle;
  rules::parse_leniently(tuned, path, {backends, settings}, [&](int line, std::string_view why) {
    throttle.log(LogLevel::warn, path + ":" + std::to_string(line) + " is passed over: " + std::string(why));
  });
}

// Also parses the user's rules, so that all ranks get the refusal of those that rank 0 cannot follow.
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
  return {words(text.substr(1, end - 1)), text.substr(end + 1)};
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

// All ranks use rank 0's rules and its values of the agreed settings. They are stored as one line per setting, in the
// order of the table, followed by the rule sources.
RuleSources agree(const Bootstrap& bootstrap, Settings& settings) {
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

std::string write_card(const std::vector<Wanted>& wanted, const Settings& settings) {
  const std::string host = host_identity(settings.host_id), gpus = gpu_domain();
  const std::vector<int> cores = allowed_cores();
  std::string card = host + '\n' + host_name() + '\n' + std::to_string(numa_node(cores)) + '\n' + core_list(cores) +
                     '\n' + (gpus.empty() ? "" : host + " " + gpus) + '\n';
  for (const auto& [name, found] : wanted)
    card += name + (found.reason.empty() ? "=" + found.provider->domain(settings) : "!" + found.reason) + '\n';
  return card;
}

Card read_card(const std::string& text) {
  Card card;
  std::istringstream in(text);
  std::getline(in, card.place.host);
  std::getline(in, card.place.host_name);
  card.place.host_name = printable(card.place.host_name, 255);
  std::string node;
  std::getline(in, node);
  std::from_chars(node.data(), node.data() + node.size(), card.place.numa_node);
  std::getline(in, card.cores);
  std::getline(in, card.place.gpu_domain);
  for (std::string line; std::getline(in, line);) {
    const auto mark = line.find_first_of("=!");
    if (mark == std::string::npos) continue;
    (line[mark] == '=' ? card.domains : card.reasons)[line.substr(0, mark)] = printable(line.substr(mark + 1));
  }
  return card;
}

// True if two ranks may try to connect by this provider; the same in both directions.
bool may_try(const Card& a, const Card& b, std::string_view name) {
  const auto left = a.domains.find(name), right = b.domains.find(name);
  return left != a.domains.end() && right != b.domains.end() && left->second == right->second;
}

class Wirer {
 public:
  Wirer(const Bootstrap& bootstrap, Settings& settings, TransportListener& listener)
      : bootstrap_(bootstrap),
        settings_(settings),
        listener_(listener),
        until_(deadline_in(Seconds(settings.connect_timeout))),
        route_(static_cast<std::size_t>(bootstrap.size), -1) {}

  Wiring run() {
    for (const std::string& name : words(settings_.transport))
      if (is_worth_trying(name)) wanted_.push_back(wanted(name, settings_));
    exchange_cards();
    for (const Wanted& one : wanted_) {
      if (one.found.reason.empty())
        connect(*one.found.provider);
      else if (!is_built_in(one.name))
        log(LogLevel::info, one.name + " is not used: " + one.found.reason, bootstrap_.rank);
    }
    if (transports_.empty()) connect_alone();
    check_everyone_is_reached();
    return finish();
  }

 private:
  std::size_t index(int rank) const { return static_cast<std::size_t>(rank); }

  // Optional providers that the user did not name are tried only if they can be found here and the ranks are on
  // several hosts.
  bool is_worth_trying(const std::string& name) const {
    if (settings_.transport != Settings().transport || is_built_in(name)) return true;
    return bootstrap_.local_size < bootstrap_.size && is_worth_finding(name, settings_);
  }

  void exchange_cards() {
    const std::string mine = write_card(wanted_, settings_);
    if (bootstrap_.size == 1) {
      cards_ = {read_card(mine)};
      return;
    }
    std::vector<Awaited> keys;
    for (int rank = 0; rank < bootstrap_.size; ++rank)
      keys.push_back({"card/" + std::to_string(rank), departure_key(rank)});
    try {
      for (const std::string& text :
           bootstrap_.store->set_and_wait(keys[index(bootstrap_.rank)].key, mine, keys, until_))
        cards_.push_back(read_card(text));
    } catch (const Error& error) {
      if (error.code() == Code::timeout && error.culprit() < 0) tell_who_is_missing(keys);
      throw;
    }
  }

  void tell_who_is_missing(std::span<const Awaited> keys) const {
    std::vector<int> missing;
    std::string card;
    for (int rank = 0; rank < bootstrap_.size; ++rank)
      if (!bootstrap_.store->find(keys[index(rank)].key, card)) missing.push_back(rank);
    if (!missing.empty()) throw store_rules::not_joined(missing, settings_.connect_timeout);
  }

  // Logs that a rank lacks a provider which this host has, since a slower transport replaces it silently.
  void say_who_lacks(const Provider& one, int rank) const {
    if (is_built_in(one.name) || cards_[index(rank)].domains.contains(one.name)) return;
    const auto& reasons = cards_[index(rank)].reasons;
    const auto why = reasons.find(one.name);
    log(LogLevel::info,
        std::string(one.name) + " does not reach rank " + std::to_string(rank) + " on " +
            cards_[index(rank)].place.host_name + ": " +
            (why == reasons.end() ? "there is no module, or no device, for it there" : why->second),
        bootstrap_.rank);
  }

  bool are_here(const std::vector<int>& ranks) const {
    const std::string& here = cards_[index(bootstrap_.rank)].place.host;
    return std::ranges::all_of(ranks, [&](int rank) { return cards_[index(rank)].place.host == here; });
  }

  void connect(const Provider& one) {
    std::vector<int> peers;
    for (int rank = 0; rank < bootstrap_.size; ++rank) {
      if (rank == bootstrap_.rank || route_[index(rank)] >= 0) continue;
      if (may_try(cards_[index(bootstrap_.rank)], cards_[index(rank)], one.name))
        peers.push_back(rank);
      else
        say_who_lacks(one, rank);
    }
    if (peers.empty()) return;
    const auto store = make_prefix_store(bootstrap_.store, std::string(one.name));
    Rendezvous rendezvous;
    rendezvous.rank = bootstrap_.rank;
    rendezvous.size = bootstrap_.size;
    rendezvous.peers = peers;
    rendezvous.one_host = settings_.host_id.empty() && are_here(peers);
    rendezvous.cores = cores_used_with(peers);
    rendezvous.store = store.get();
    rendezvous.settings = &settings_;
    rendezvous.listener = &listener_;
    rendezvous.until = until_;
    rendezvous.native = bootstrap_.native;
    Connected connected = one.connect(rendezvous);
    for (const int rank : connected.unreached) {
      unreached_[rank] += (unreached_[rank].empty() ? "" : "; ") + std::string(one.name) + ": " + connected.reason;
      log(LogLevel::info,
          std::string(one.name) + " does not reach rank " + std::to_string(rank) + ": " + connected.reason,
          bootstrap_.rank);
    }
    if (!connected.transport || connected.unreached.size() == peers.size()) return;
    for (const int rank : peers)
      if (std::ranges::count(connected.unreached, rank) == 0)
        route_[index(rank)] = static_cast<int>(transports_.size());
    transports_.push_back(std::move(connected.transport));
  }

  // A world of one rank uses the reference transport (inproc) to send to itself.
  void connect_alone() {
    Rendezvous rendezvous;
    rendezvous.rank = bootstrap_.rank;
    rendezvous.size = bootstrap_.size;
    rendezvous.settings = &settings_;
    rendezvous.listener = &listener_;
    rendezvous.until = until_;
    transports_.push_back(find_provider("inproc", settings_).provider->connect(rendezvous).transport);
  }

  void check_everyone_is_reached() {
    for (int rank = 0; rank < bootstrap_.size; ++rank) {
      if (rank == bootstrap_.rank || route_[index(rank)] >= 0) continue;
      std::string why = unreached_[rank];
      for (const Wanted& one : wanted_) {
        const std::string& name = one.name;
        for (const int side : {bootstrap_.rank, rank}) {
          const auto& reasons = cards_[index(side)].reasons;
          if (const auto found = reasons.find(name); found != reasons.end())
            why += (why.empty() ? "" : "; ") + name + ": " + found->second + " on rank " + std::to_string(side);
        }
        if (!may_try(cards_[index(bootstrap_.rank)], cards_[index(rank)], name) &&
            why.find(name + ":") == std::string::npos)
          why += (why.empty() ? "" : "; ") + name + ": they are not in one " + name + " domain";
      }
      throw Error(Code::resource,
                  "rank " + std::to_string(bootstrap_.rank) + " on " + cards_[index(bootstrap_.rank)].place.host_name +
                      " cannot reach rank " + std::to_string(rank) + " on " + cards_[index(rank)].place.host_name +
                      " (" + why + "); allow another transport with TUTTI_TRANSPORT",
                  rank);
    }
  }

  Wiring finish() {
    Wiring wiring;
    std::vector<Place> places;
    for (const Card& card : cards_) places.push_back(card.place);
    wiring.topology = Topology(std::move(places));
    const Hosts& hosts = wiring.topology.hosts();
    const std::span<const int> local = hosts[hosts.host_of(bootstrap_.rank)];
    wiring.local_ranks = static_cast<int>(local.size());
    wiring.local_cores = cores_together(local);
    wiring.same_cores = all_have_my_cores(local);
    route_[index(bootstrap_.rank)] = 0;
    wiring.transport = transports_.size() == 1
                           ? std::move(transports_.front())
                           : make_routed(bootstrap_.rank, bootstrap_.size, std::move(transports_), route_);
    if (!settings_.net.empty())
      wiring.transport = make_shaped(std::move(wiring.transport), parse_link_shape(settings_.net));
    for (int rank = 0; rank < bootstrap_.size; ++rank)
      wiring.routes.push_back(rank == bootstrap_.rank ? "self" : wiring.transport->describe(rank));
    return wiring;
  }

  std::set<int> cores_of_all(std::span<const int> ranks) const {
    std::set<std::string_view> lists;  // few, and mostly one
    for (const int rank : ranks) lists.insert(cards_[index(rank)].cores);
    std::set<int> cores;
    for (const std::string_view list : lists)
      for (const int core : parse_core_list(std::string(list))) cores.insert(core);
    return cores;
  }

  std::vector<int> cores_used_with(std::vector<int> peers) const {
    const std::string& host = cards_[index(bootstrap_.rank)].place.host;
    std::erase_if(peers, [&](int rank) { return cards_[index(rank)].place.host != host; });
    peers.push_back(bootstrap_.rank);
    const std::set<int> cores = cores_of_all(peers);
    return {cores.begin(), cores.end()};
  }

  // The number of cores that these ranks may use together; ranks bound to one core each have several together.
  int cores_together(std::span<const int> ranks) const {
    const std::set<int> cores = cores_of_all(ranks);
    return cores.empty() ? usable_cores() : cores_in_quota(static_cast<int>(cores.size()));
  }

  bool all_have_my_cores(std::span<const int> ranks) const {
    const std::string& mine = cards_[index(bootstrap_.rank)].cores;
    return std::ranges::all_of(ranks, [&](int rank) { return cards_[index(rank)].cores == mine; });
  }

  const Bootstrap& bootstrap_;
  Settings& settings_;
  TransportListener& listener_;
  const Deadline until_;
  std::vector<Wanted> wanted_;
  std::vector<Card> cards_;
  std::vector<int> route_;  // by rank: index in transports_; -1: not connected yet
  std::vector<std::unique_ptr<Transport>> transports_;
  std::map<int, std::string> unreached_;
};

}  // namespace

Wiring connect_all(const Bootstrap& bootstrap, Settings& settings, TransportListener& listener) {
  RuleSources rules = agree(bootstrap, settings);
  Wiring wiring = Wirer(bootstrap, settings, listener).run();
  wiring.tuned = std::move(rules.tuned);
  wiring.backends = std::move(rules.backends);
  return wiring;
}

}  // namespace tutti
