// Cards: see cards.hpp.
#include "collectives/api/cards.hpp"

#include <algorithm>
#include <charconv>
#include <sstream>

#include "collectives/bootstrap/racks.hpp"
#include "collectives/route/rules.hpp"
#include "transports/core/host.hpp"
#include "transports/core/printable.hpp"

namespace tutti {
namespace {

Cards::HostCard read_host_card(std::string_view text) {
  Cards::HostCard card;
  std::istringstream in{std::string(text)};
  std::getline(in, card.place.host);
  std::getline(in, card.place.host_name);
  card.place.host_name = printable(card.place.host_name, 255);
  std::getline(in, card.place.gpu_domain);
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with('/')) card.place.rack = printable(line.substr(1), 255);
    const auto mark = line.find_first_of("=!");
    if (mark == std::string::npos) continue;
    (line[mark] == '=' ? card.domains : card.reasons)[line.substr(0, mark)] = printable(line.substr(mark + 1));
  }
  return card;
}

}  // namespace

Text write_card(std::span<const Wanted> wanted, const Settings& settings) {
  const std::string host = host_identity(settings.host_id), gpus = gpu_domain();
  const std::vector<int> cores = allowed_cores();
  Text card;
  card.own = std::to_string(numa_node(cores)) + ' ' + core_list(cores);
  card.shared = host + '\n' + host_name() + '\n' + (gpus.empty() ? "" : host + " " + gpus) + '\n';
  if (const std::string rack = launchers::own_rack(settings); !rack.empty()) card.shared += '/' + rack + '\n';
  for (const auto& [name, found] : wanted)
    card.shared += name + (found.reason.empty() ? "=" + found.provider->domain(settings) : "!" + found.reason) + '\n';
  return card;
}

Cards::Cards(Texts texts) : texts_(std::move(texts)) {
  const PackedTexts& hosts = texts_.shared_texts();
  for (std::size_t i = 0; i < hosts.size(); ++i) hosts_.push_back(read_host_card(hosts[i]));
}

int Cards::numa_node(int rank) const {
  int node = -1;
  const std::string_view own = texts_.own(rank);
  std::from_chars(own.data(), own.data() + own.size(), node);
  return node;
}

Topology Cards::topology() const {
  std::map<std::pair<std::size_t, int>, std::uint32_t> numbers;  // by shared part and NUMA node
  std::vector<Place> different;
  std::vector<std::uint32_t> of;
  of.reserve(texts_.size());
  RunList::Reader shared(texts_.shared_numbers());
  for (int rank = 0; rank < size(); ++rank) {
    const int node = numa_node(rank);
    const auto [at, fresh] = numbers.try_emplace({shared[static_cast<std::size_t>(rank)], node},
                                                 static_cast<std::uint32_t>(different.size()));
    if (fresh) {
      different.push_back((*this)[rank].place);
      different.back().numa_node = node;
    }
    of.push_back(at->second);
  }
  return {different, of};
}

std::string_view Cards::cores(int rank) const {
  const std::string_view own = texts_.own(rank);
  return own.substr(std::min(own.size(), own.find(' ') + 1));
}

bool Cards::share_one_host() const {
  return std::ranges::all_of(hosts_, [&](const HostCard& one) { return one.place.host == hosts_.front().place.host; });
}

std::vector<bool> Cards::may_try(int rank, std::string_view provider) const {
  std::vector<bool> by_host(hosts_.size()), by_rank(texts_.size());
  const auto& own = (*this)[rank].domains;
  if (const auto mine = own.find(provider); mine != own.end())
    for (std::size_t i = 0; i < hosts_.size(); ++i) {
      const auto theirs = hosts_[i].domains.find(provider);
      by_host[i] = theirs != hosts_[i].domains.end() && theirs->second == mine->second;
    }
  RunList::Reader shared(texts_.shared_numbers());
  for (std::size_t other = 0; other < by_rank.size(); ++other) by_rank[other] = by_host[shared[other]];
  return by_rank;
}

bool Cards::all_have(std::string_view provider) const {
  return std::ranges::all_of(hosts_, [&](const HostCard& one) {
    const auto found = one.domains.find(provider), first = hosts_.front().domains.find(provider);
    return found != one.domains.end() && found->second == first->second;
  });
}

bool Cards::none_has(std::string_view provider) const {
  return std::ranges::none_of(hosts_, [&](const HostCard& one) { return one.domains.contains(provider); });
}

bool Cards::all_connect_by(std::string_view provider, std::span<const std::string> order) const {
  if (!all_have(provider) || share_one_host()) return false;
  const auto earlier = order.first(static_cast<std::size_t>(std::ranges::find(order, provider) - order.begin()));
  return std::ranges::all_of(earlier,
                             [&](const std::string& name) { return rules::stays_on_a_host(name) || none_has(name); });
}

}  // namespace tutti
