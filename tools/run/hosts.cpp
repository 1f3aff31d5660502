// Parses lists of hosts, and places ranks.
#include "tools/run/hosts.hpp"

#include <arpa/inet.h>
#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <optional>
#include <sstream>
#include <unordered_map>

#include "collectives/bootstrap/racks.hpp"
#include "transports/core/text_file.hpp"
#include "tutti/status.hpp"

namespace tutti::tools {
namespace {

constexpr int most_slots = 4096;            // slots of one entry
constexpr int most_slots_of_all = 1 << 20;  // slots of all hosts together

/// Parses a number of slots; returns nothing if `text` is no such number.
std::optional<int> slots_in(std::string_view text) {
  int slots = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), slots);
  if (error != std::errc() || end != text.data() + text.size() || slots < 1 || slots > most_slots) return std::nullopt;
  return slots;
}

bool is_ipv6(std::string_view text) {
  in6_addr address;
  const std::string host(text.substr(0, text.find('%')));
  return inet_pton(AF_INET6, host.c_str(), &address) == 1;
}

/// Returns `text` if it names a rack; throws otherwise. `shown` is the entry, for messages.
std::string rack_in(std::string_view text, const std::string& shown) {
  try {
    if (!rack_path(text).empty()) return std::string(text);
  } catch (const Error& error) {
    throw Error(Code::invalid, fmt::format("{}: {}", shown, error.what()));
  }
  throw Error(Code::invalid, fmt::format("{} names no rack; write one as in h1:2@rack7, or rack=pod1/rack7", shown));
}

/// Parses one entry of a list: NAME, NAME:SLOTS, [ADDRESS], [ADDRESS]:SLOTS, or in a file a bare IPv6 address. USER@
/// may precede it, @RACK may follow the slots. `where` is the position in a file, for messages; empty: a list of hosts.
Host parse_host(std::string_view entry, const std::string& where = {}) {
  const std::string shown =
      where.empty() ? fmt::format("'{}' in the list of hosts", entry) : fmt::format("{}: '{}'", where, entry);
  Host host;
  const std::size_t at = entry.find('@');
  const std::size_t user = at == entry.npos || entry.find_first_of(":[") < at ? 0 : at + 1;
  const std::string_view place = entry.substr(user);
  std::string_view rest;
  if (place.starts_with('[')) {
    const std::size_t close = std::min(place.find(']'), place.size());
    host.name = place.substr(1, close - 1);
    rest = place.substr(std::min(close + 1, place.size()));
    if (close == place.size() || (!rest.empty() && rest[0] != ':')) host.name.clear();
  } else if (!where.empty() && is_ipv6(place)) {
    host.name = place;
  } else {
    host.name = place.substr(0, place.find(':'));
    rest = place.substr(host.name.size());
  }
  const bool named = !host.name.empty() && !host.name.starts_with('-') && user != 1;
  host.name.insert(0, entry.substr(0, user));
  // The name becomes an argument of the remote start command, which must not interpret it as a flag.
  if (!named || host.name.starts_with('-') || host.name.find_first_of(" \t/\\'\"$`;&|<>()*?") != host.name.npos)
    throw Error(Code::invalid, fmt::format("{} names no host; give {}", shown,
                                           where.empty() ? "a list such as h1:2,h2:2" : "a line such as 'h1 slots=2'"));
  if (rest.empty()) return host;
  const std::size_t mark = std::min(rest.find('@'), rest.size());
  const auto slots = slots_in(rest.substr(1, mark - 1));
  if (!slots)
    throw Error(Code::invalid, fmt::format("{}: behind the host's name stands how many ranks it takes, 1 to {}, as in "
                                           "h1:2; an IPv6 address goes in brackets",
                                           shown, most_slots));
  host.slots = *slots;
  if (mark < rest.size()) host.rack = rack_in(rest.substr(mark + 1), shown);
  return host;
}

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

/// Hosts in the order of their first entries.
class Hosts {
 public:
  void add(Host host) {
    slots_ += host.slots;
    if (slots_ > most_slots_of_all)
      throw Error(Code::invalid, fmt::format("the hosts have more than {} slots together", most_slots_of_all));
    const auto [same, is_new] = index_.try_emplace(lower(host.name), hosts_.size());
    if (is_new) {
      hosts_.push_back(std::move(host));
      return;
    }
    Host& before = hosts_[same->second];
    if (!host.rack.empty() && !before.rack.empty() && host.rack != before.rack)
      throw Error(Code::invalid, fmt::format("host '{}' is in two racks, {} and {}; a host is in one", before.name,
                                             before.rack, host.rack));
    if (before.rack.empty()) before.rack = std::move(host.rack);
    before.slots += host.slots;
    before.most = before.most == 0 || host.most == 0 ? 0 : before.most + host.most;
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

namespace {

/// Returns a line without comments. `open_since` is the number of the line in which a comment that is still open began;
/// 0: none is open.
std::string without_comments(std::string_view line, int number, int& open_since) {
  std::string kept;
  while (!line.empty()) {
    if (open_since == 0) {
      const std::size_t mark = std::min({line.find('#'), line.find("//"), line.find("/*"), line.size()});
      kept += line.substr(0, mark);
      line.remove_prefix(mark);
      if (!line.starts_with("/*")) break;
      line.remove_prefix(2);
      open_since = number;
      kept += ' ';
    }
    const std::size_t end = line.find("*/");
    if (end == line.npos) break;
    line.remove_prefix(end + 2);
    open_since = 0;
  }
  return kept;
}

/// Returns the line with single blanks between words, and without blanks around "=": "h1 slots=2".
std::string plain_line(std::string_view line) {
  std::string plain;
  for (const char c : line) {
    const bool blank = c == ' ' || c == '\t' || c == '\r';
    if (blank ? plain.empty() || plain.back() == ' ' || plain.back() == '=' : false) continue;
    if (c == '=' && plain.ends_with(' ')) plain.pop_back();
    plain += blank ? ' ' : c;
  }
  return plain;
}

/// Sets a host's value from "slots=2", "max_slots=4" or "user=me", by any of the names that hostfiles use for them.
void take_key(Host& host, const std::string& word, const std::string& where) {
  const std::size_t equals = std::min(word.find('='), word.size());
  std::string key = lower(word.substr(0, equals));
  std::replace(key.begin(), key.end(), '-', '_');
  const std::string value = equals == word.size() ? std::string() : word.substr(equals + 1);
  const auto slots = [&] {
    if (const auto found = slots_in(value)) return *found;
    throw Error(Code::invalid, fmt::format("{}: '{}' is no number of ranks; give 1 to {}, as in 'h1 slots=2'", where,
                                           word, most_slots));
  };
  if (key == "slots" || key == "count" || key == "cpu")
    host.slots = slots();
  else if (key == "max_slots" || key == "slots_max")
    host.most = slots();
  else if ((key == "user" || key == "username" || key == "user_name") && !value.empty())
    host.name = parse_host(value + "@[" + host.name.substr(host.name.find('@') + 1) + "]", where).name;
  else if (key == "rack")
    host.rack = rack_in(value, fmt::format("{}: '{}'", where, word));
  else
    throw Error(
        Code::invalid,
        fmt::format("{}: '{}' means nothing here: a line is a host and its slots, as in 'h1 slots=2'; max_slots=4, "
                    "user=me and rack=rack7 may follow",
                    where, word));
  if (host.most != 0 && host.slots > host.most) host.slots = host.most;
}

}  // namespace

std::vector<Host> read_hostfile(const std::string& path) {
  constexpr std::size_t longest = std::size_t{64} << 20;
  constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";
  Hosts hosts;
  int number = 0, comment_since = 0;
  for (std::string line : read_lines(path, longest)) {
    if (++number == 1 && line.starts_with(byte_order_mark)) line.erase(0, byte_order_mark.size());
    std::istringstream words(plain_line(without_comments(line, number, comment_since)));
    std::string word;
    if (!(words >> word)) continue;
    const std::string where = fmt::format("{}:{}", path, number);
    Host host = parse_host(word, where);
    while (words >> word) take_key(host, word, where);
    hosts.add(std::move(host));
  }
  if (comment_since != 0)
    throw Error(Code::invalid, fmt::format("{}:{}: the comment that begins with /* does not end; close it with */",
                                           path, comment_since));
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
  // With more ranks than slots, a host's share is proportional to its slots. The share is the rounded total of all
  // hosts up to this one, minus the ranks given to the hosts before it.
  std::vector<int> shares;
  for (std::int64_t seen = 0, given = 0; const Host& host : hosts) {
    seen += host.slots;
    const std::int64_t until = ranks > slots ? ranks * seen / slots : seen;
    shares.push_back(static_cast<int>(until - given));
    given = until;
    if (host.most != 0 && shares.back() > host.most)
      throw Error(Code::invalid,
                  fmt::format("host '{}' would get {} ranks, and takes {} at most (max_slots); start fewer, "
                              "or raise it",
                              host.name, shares.back(), host.most));
  }
  for (int rank = 0; rank < ranks;)
    for (std::size_t i = 0; i < hosts.size(); ++i)
      for (bool more = true; more && shares[i] > 0 && rank < ranks; --shares[i], more = !placing.by_node)
        hosts[i].ranks.push_back(rank++);
  std::erase_if(hosts, [](const Host& host) { return host.ranks.empty(); });
  return ranks;
}

}  // namespace tutti::tools
