// Network: what a message costs on each level of links, as the alpha-beta-gamma model has it.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>

namespace tutti::model {

/// Where a message goes: between two ranks of a host, between two hosts, of a rack where there are racks, or between
/// two racks.
enum class Level { within, between, beyond };
inline constexpr int levels = 3;
std::string_view name(Level level) noexcept;  ///< "within", "between", "beyond"

/// A message of m bytes is with its receiver `latency` + m * `per_byte` seconds after it has begun, if nothing else
/// occupies the link. It occupies the processes at both ends for `overhead` each, and the link for m * `per_byte`.
struct Link {
  double latency = 0;   ///< alpha, seconds
  double per_byte = 0;  ///< beta, seconds: the inverse of the bandwidth
  double overhead = 0;  ///< seconds
  bool operator==(const Link&) const = default;
};

/// The links within a host belong to a rank each, in either direction; the link of a host to the others is shared by
/// its ranks, in either direction. Folding and copying occupy the rank.
///
/// Where it is told what is beyond racks, that is the link of a rack to the others, shared by its hosts, in either
/// direction; what goes there passes the links of hosts as well. Where it is not, messages to other racks cost what
/// those to other hosts do.
///
/// Hockney, "The communication challenge for MPP: Intel Paragon and Meiko CS-2", 1994 (alpha, beta); Alexandrov,
/// Ionescu, Schauser & Scheiman, "LogGP: incorporating long messages into the LogP model", SPAA 1995 (overhead).
struct Network {
  std::array<Link, levels> links;  ///< by level; beyond is Link{} where nothing is told of it
  double fold_per_byte = 0;        ///< gamma, seconds for a byte of the result
  /// Cores of a host that its ranks share; a fraction where one machine plays several hosts. 0: each rank has its own.
  double cores = 0;
  bool operator==(const Network&) const = default;

  const Link& operator[](Level level) const noexcept { return links[static_cast<std::size_t>(level)]; }
  Link& operator[](Level level) noexcept { return links[static_cast<std::size_t>(level)]; }
  bool tells_racks() const noexcept { return links[2] != Link{}; }
  /// The links beyond racks as they apply: where nothing is told, as quick as those between hosts, and never full.
  Link beyond() const noexcept { return tells_racks() ? links[2] : Link{links[1].latency, 0, links[1].overhead}; }
};

/// Networks that are known by name.
struct NamedNetwork {
  std::string_view name;     ///< "fabric"
  std::string_view meaning;  ///< one line
  Network network;
};
std::span<const NamedNetwork> named_networks() noexcept;

/// The network of hosts joined by TCP that nobody has measured.
const Network& default_network() noexcept;

/// Parses a name of the list, or levels of "LATENCY BANDWIDTH [OVERHEAD]" and the folding: "within 0.3us 10G,
/// between 2us 12.5G 0.4us, beyond 5us 50G, fold 10G". Bandwidths are in bytes a second. What is not given is that of
/// the default; an overhead that is not given is a quarter of the latency. "cores 4" says how many
/// a host has, where its ranks outnumber them. Throws Error{invalid}.
Network parse_network(std::string_view text);

/// As parse_network() takes them: "12.5us".
std::string time_text(double seconds);
std::string to_string(const Network& network);

}  // namespace tutti::model
