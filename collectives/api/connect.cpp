// Connecting the ranks of a job: the choice of a transport for every pair of ranks.
//
// First all ranks adopt rank 0's values of the settings that must be equal on all ranks. Every rank then publishes its
// card and reads the cards of all: host, and for each provider its domain or why it is not viable. From the cards all
// ranks derive, without further messages, which pairs each provider may connect. Providers connect in order of
// preference. Each provider connects the pairs that no earlier one connected.
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <span>

#include "collectives/api/agreement.hpp"
#include "collectives/api/cards.hpp"
#include "collectives/bootstrap/gathering.hpp"
#include "collectives/runtime/context.hpp"
#include "transports/core/host.hpp"
#include "transports/decorators/chaos.hpp"
#include "transports/decorators/routed.hpp"
#include "transports/decorators/shaped.hpp"
#include "tutti/log.hpp"
#include "tutti/provider/provider.hpp"
#include "tutti/store.hpp"

namespace tutti {
namespace {

Wanted wanted(const std::string& name, const Settings& settings) {
  Found found = find_provider(name, settings);
  if (found.provider != nullptr && found.provider->connect == nullptr)
    throw Error(Code::invalid, "'" + name + "' is a backend and no transport; name it in TUTTI_BACKEND");
  if (found.provider == nullptr)
    throw Error(Code::invalid,
                "there is no transport '" + name + "'; TUTTI_TRANSPORT takes a list (" + found.reason + ")");
  return {name, std::move(found)};
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
    if (!settings_.chaos.empty()) begin_chaos();
    for (const std::string& name : words_of(settings_.transport))
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

  void begin_chaos() {
    chaos_ = parse_chaos(settings_.chaos);
    if (bootstrap_.epoch > 0) chaos_ = chaos_->in_later_world();
    faults_while_connecting_.emplace(*chaos_, bootstrap_.rank);
    if (bootstrap_.rank == 0)
      log(LogLevel::warn,
          "chaos is on, so this job fails on purpose (" + to_string(*chaos_) + "); unset TUTTI_CHAOS to run without");
  }

  // With the default list of transports, an optional provider is tried only if it can be found on this host and the
  // ranks are on several hosts.
  bool is_worth_trying(const std::string& name) const {
    if (settings_.transport != Settings().transport || is_built_in(name)) return true;
    return bootstrap_.local_size < bootstrap_.size && is_worth_finding(name, settings_);
  }

  void exchange_cards() {
    const Text mine = write_card(wanted_, settings_);
    if (bootstrap_.size == 1) {
      Texts alone;
      alone.add(mine.own, mine.shared);
      cards_ = std::make_unique<Cards>(std::move(alone));
      return;
    }
    launchers::Gatherers who;
    who.rank = bootstrap_.rank;
    who.size = bootstrap_.size;
    who.one_host = bootstrap_.local_size == bootstrap_.size;
    who.store = bootstrap_.store;
    who.secret = settings_.secret;
    who.iface = settings_.iface;
    who.patience = settings_.connect_timeout;
    who.until = until_;
    gathering_ = std::make_unique<launchers::Gathering>(std::move(who));
    cards_ = std::make_unique<Cards>(gathering_->exchange("cards", mine));
  }

  const Cards& cards() const { return *cards_; }

  // Logs that a rank lacks an optional provider that this rank has: a slower transport replaces the provider silently.
  void say_who_lacks(const Provider& one, int rank) const {
    if (is_built_in(one.name) || cards()[rank].domains.contains(one.name)) return;
    const auto& reasons = cards()[rank].reasons;
    const auto why = reasons.find(one.name);
    log(LogLevel::info,
        std::string(one.name) + " does not reach rank " + std::to_string(rank) + " on " +
            cards()[rank].place.host_name + ": " +
            (why == reasons.end() ? "there is no module, or no device, for it there" : why->second),
        bootstrap_.rank);
  }

  bool are_here(const std::vector<int>& ranks) const {
    return std::ranges::all_of(ranks, [&](int rank) { return cards().share_a_host(bootstrap_.rank, rank); });
  }

  std::vector<int> peers_for(const Provider& one) const {
    const std::vector<bool> may = cards().may_try(bootstrap_.rank, one.name);
    std::vector<int> peers;
    for (int rank = 0; rank < bootstrap_.size; ++rank) {
      if (rank == bootstrap_.rank || route_[index(rank)] >= 0) continue;
      if (may[index(rank)])
        peers.push_back(rank);
      else
        say_who_lacks(one, rank);
    }
    return peers;
  }

  void connect(const Provider& one) {
    const std::vector<int> peers = peers_for(one);
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
    if (gathering_ && cards().all_connect_by(one.name, words_of(settings_.transport)))
      rendezvous.exchange = [this](std::string_view name, const Text& mine) {
        return gathering_->exchange(name, mine);
      };
    accept(one, peers, one.connect(rendezvous));
  }

  void accept(const Provider& one, const std::vector<int>& peers, Connected connected) {
    for (const int rank : connected.unreached) {
      unreached_[rank] += (unreached_[rank].empty() ? "" : "; ") + std::string(one.name) + ": " + connected.reason;
      log(LogLevel::info,
          std::string(one.name) + " does not reach rank " + std::to_string(rank) + ": " + connected.reason,
          bootstrap_.rank);
    }
    if (!connected.transport || connected.unreached.size() == peers.size()) return;
    const std::set<int> unreached(connected.unreached.begin(), connected.unreached.end());
    for (const int rank : peers)
      if (!unreached.contains(rank)) route_[index(rank)] = static_cast<int>(transports_.size());
    transports_.push_back(std::move(connected.transport));
  }

  // In a world of one rank, the rank uses the reference transport (inproc) to send to itself.
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
    for (int rank = 0; rank < bootstrap_.size; ++rank)
      if (rank != bootstrap_.rank && route_[index(rank)] < 0) refuse_unreached(rank);
  }

  [[noreturn]] void refuse_unreached(int rank) {
    std::string why = unreached_[rank];
    for (const Wanted& one : wanted_) {
      const std::string& name = one.name;
      for (const int side : {bootstrap_.rank, rank}) {
        const auto& reasons = cards()[side].reasons;
        if (const auto found = reasons.find(name); found != reasons.end())
          why += (why.empty() ? "" : "; ") + name + ": " + found->second + " on rank " + std::to_string(side);
      }
      if (!cards().may_try(bootstrap_.rank, name)[index(rank)] && why.find(name + ":") == std::string::npos)
        why += (why.empty() ? "" : "; ") + name + ": they are not in one " + name + " domain";
    }
    throw Error(Code::resource,
                "rank " + std::to_string(bootstrap_.rank) + " on " + cards()[bootstrap_.rank].place.host_name +
                    " cannot reach rank " + std::to_string(rank) + " on " + cards()[rank].place.host_name + " (" + why +
                    "); allow another transport with TUTTI_TRANSPORT",
                rank);
  }

  Wiring finish() {
    Wiring wiring;
    wiring.topology = cards().topology();
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
    if (chaos_) wiring.transport = make_chaos(std::move(wiring.transport), listener_, *chaos_);
    for (int rank = 0; rank < bootstrap_.size; ++rank)
      wiring.routes.add(rank == bootstrap_.rank ? "self" : wiring.transport->describe(rank));
    return wiring;
  }

  std::set<int> cores_of_all(std::span<const int> ranks) const {
    std::set<std::string_view> lists;  // usually only one: the ranks of a host mostly have the same cores
    for (const int rank : ranks) lists.insert(cards().cores(rank));
    std::set<int> cores;
    for (const std::string_view list : lists)
      for (const int core : parse_core_list(std::string(list))) cores.insert(core);
    return cores;
  }

  std::vector<int> cores_used_with(std::vector<int> peers) const {
    std::erase_if(peers, [&](int rank) { return !cards().share_a_host(bootstrap_.rank, rank); });
    peers.push_back(bootstrap_.rank);
    const std::set<int> cores = cores_of_all(peers);
    return {cores.begin(), cores.end()};
  }

  // The number of cores that these ranks may use together: the union of their cores, limited by the CPU quota of this
  // process.
  int cores_together(std::span<const int> ranks) const {
    const std::set<int> cores = cores_of_all(ranks);
    return cores.empty() ? usable_cores() : cores_in_quota(static_cast<int>(cores.size()));
  }

  bool all_have_my_cores(std::span<const int> ranks) const {
    const std::string_view mine = cards().cores(bootstrap_.rank);
    return std::ranges::all_of(ranks, [&](int rank) { return cards().cores(rank) == mine; });
  }

  const Bootstrap& bootstrap_;
  Settings& settings_;
  TransportListener& listener_;
  const Deadline until_;
  std::vector<Wanted> wanted_;
  std::unique_ptr<launchers::Gathering> gathering_;  // null in a world of one
  std::unique_ptr<Cards> cards_;
  std::vector<int> route_;  // by rank: index in transports_; -1: not connected yet
  std::vector<std::unique_ptr<Transport>> transports_;
  std::map<int, std::string> unreached_;
  std::optional<Chaos> chaos_;
  std::optional<system_faults::Ticket> faults_while_connecting_;
};

}  // namespace

Wiring connect_all(const Bootstrap& bootstrap, Settings& settings, TransportListener& listener) {
  RuleSources rules = agree_with_first(bootstrap, settings);
  Wiring wiring = Wirer(bootstrap, settings, listener).run();
  wiring.tuned = std::move(rules.tuned);
  wiring.backends = std::move(rules.backends);
  return wiring;
}

}  // namespace tutti
