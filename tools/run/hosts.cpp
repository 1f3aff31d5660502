// Parses lists of hosts, and places ranks.
#include "tools/run/hosts.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <sstream>
#include <unordered_map>

#include "transports/core/text_file.hpp"
#include "tutti/status.hpp"

namespace tutti::tools {
namespace {

constexpr int most_slots = 4096;            // of an entry
constexpr int most_slots_of_all = 1 << 20;  // together

int parse_slots(std::string_view text, std::string_view entry) {
  int slots = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), slots);
  if (error != std::errc() || end != text.data() + text.size() || slots < 1 || slots > most_slots)
    throw Error(Code::invalid, fmt::format("'{}' in the list of hosts: behind the host's name stands how many ranks it "
                                           "takes, 1 to {}, as in h1:2; an IPv6 address goes in brackets",
                                           entry, most_slots));
  return slots;
}

/// One entry of a list: NAME, NAME:SLOTS, [ADDRESS], [ADDRESS]:SLOTS.
Host parse_host(std::string_view entry) {
  Host host;
  std::string_view rest;
  if (entry.starts_with('[')) {
    const std::size_t close = std::min(entry.find(']'), entry.size());
    host.name = entry.substr(1, close - 1);
    rest = entry.substr(std::min(close + 1, entry.size()));
    if (close == entry.size() || (!rest.empty() && rest[0] != ':')) host.name.clear();
  } else {
    host.name = entry.substr(0, entry.find(':'));
    rest = entry.substr(host.name.size());
  }
  // The name becomes an argument of the remote start command, which must not take it for a flag.
  if (host.name.empty() || host.name.starts_with('-') ||
      host.name.find_first_of(" \t/\\'\"$`;&|<>()*?") != host.name.npos)
    throw Error(Code::invalid,
                fmt::format("'{}' in the list of hosts names no host; give a list such as h1:2,h2:2", entry));
  if (!rest.empty()) host.slots = parse_slots(rest.substr(1), entry);
  return host;
}

/// Hosts in the order of their first entries.
class Hosts {
 public:
  void add(Host host) {
    slots_ += host.slots;
    if (slots_ > most_slots_of_all)
      throw Error(Code::invalid, fmt::format("the hosts have more than {} slots together", most_slots_of_all));
    const auto [same, is_new] = index_.try_emplace(host.name, hosts_.size());
    if (is_new)
      hosts_.push_back(std::move(host));
    else
      hosts_[same->second].slots += host.slots;
  }
  bool empty() const noexcept { return hosts_.empty(); }
  std::vector<Host> take() noexcept { return std::move(hosts_); }

 private:
  std::vector<Host> hosts_;
  std::unordered_map<std::string, std::size_t> index_;
  int slots_ = 0;
};

}  // namespace

std::vector<Host> parse_hosts(std::string_view list) {
  Hosts hosts;
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    hosts.add(parse_host(list.substr(begin, end - begin)));
    begin = end + 1;
  }
  return hosts.take();
}

std::vector<Host> read_hostfile(const std::string& path) {
  constexpr std::size_t longest = std::size_t{64} << 20;
  Hosts hosts;
  int number = 0;
  for (const std::string& line : read_lines(path, longest)) {
    ++number;
    std::istringstream words(line.substr(0, line.find('#')));
    std::string entry, slots, rest;
    if (!(words >> entry)) continue;
    constexpr std::string_view key = "slots=";
    words >> slots >> rest;
    if (!rest.empty() || (!slots.empty() && !slots.starts_with(key)))
      throw Error(Code::invalid,
                  fmt::format("{}:{}: a line is a host and its slots, as in 'h1 slots=2'", path, number));
    Host host = parse_host(entry);
    if (!slots.empty()) host.slots = parse_slots(std::string_view(slots).substr(key.size()), line);
    hosts.add(std::move(host));
  }
  if (hosts.empty()) throw Error(Code::invalid, fmt::format("the hostfile '{}' names no host", path));
  return hosts.take();
}

int place_ranks(std::vector<Host>& hosts, int ranks, const Placing& placing) {
  int slots = 0;
  for (const Host& host : hosts) slots += host.slots;
  if (ranks == 0) ranks = slots;
  if (ranks > slots && !placing.oversubscribe)
    throw Error(Code::invalid,
                fmt::format("-np {} asks for more ranks than the hosts have slots ({}); give more slots, as in {}:{}, "
                            "or add --oversubscribe",
                            ranks, slots, hosts.front().name, hosts.front().slots + ranks - slots));
  // With too few slots, a host's share is proportional to its slots: the rounded total of all hosts up to it, less the
  // ranks given to those before it.
  std::vector<int> shares;
  for (std::int64_t seen = 0, given = 0; const Host& host : hosts) {
    seen += host.slots;
    const std::int64_t until = ranks > slots ? ranks * seen / slots : seen;
    shares.push_back(static_cast<int>(until - given));
    given = until;
  }
  for (int rank = 0; rank < ranks;)
    for (std::size_t i = 0; i < hosts.size(); ++i)
      for (bool more = true; more && shares[i] > 0 && rank < ranks; --shares[i], more = !placing.by_node)
        hosts[i].ranks.push_back(rank++);
  std::erase_if(hosts, [](const Host& host) { return host.ranks.empty(); });
  return ranks;
}

}  // namespace tutti::tools
