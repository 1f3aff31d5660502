// Network: the cost of a message on each level of links, in the alpha-beta-gamma model.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>

namespace tutti::model {

/// The level of a message. within: between ranks of one host; between: between hosts of one rack, or between any hosts
/// if there are no racks; beyond: between racks.
enum class Level { within, between, beyond };
inline constexpr int levels = 3;
std::string_view name(Level level) noexcept;  ///< "within", "between", "beyond"

/// A message of m bytes arrives at its receiver `latency` + m * `per_byte` seconds after it has begun, if nothing else
/// occupies the link. It occupies the ranks at both ends for `overhead` each, and the link for m * `per_byte`.
struct Link {
  double latency = 0;   ///< alpha, seconds
  double per_byte = 0;  ///< beta, seconds: the inverse of the bandwidth
  double overhead = 0;  ///< seconds
  bool operator==(const Link&) const = default;
};

/// Within a host, each rank has its own link, in each direction. All ranks of a host share its link to other hosts, in
/// each direction. Folding and copying occupy the rank.
///
/// If links[Level::beyond] is set, it is the link of a rack to other racks. All hosts of the rack share it, in each
/// direction. A message between racks passes the links of both hosts as well. If it is not set, messages to other racks
/// cost the same as messages to other hosts.
///
/// Hockney, "The communication challenge for MPP: Intel Paragon and Meiko CS-2", 1994 (alpha, beta); Alexandrov,
/// Ionescu, Schauser & Scheiman, "LogGP: incorporating long messages into the LogP model", SPAA 1995 (overhead).
struct Network {
  std::array<Link, levels> links;  ///< by level; Link{} for `beyond` means that it is not set
  double fold_per_byte = 0;        ///< gamma, seconds for a byte of the result
  /// Cores that the ranks of a host share; may be a fraction if one machine simulates several hosts. 0: one per rank.
  double cores = 0;
  bool operator==(const Network&) const = default;

  const Link& operator[](Level level) const noexcept { return links[static_cast<std::size_t>(level)]; }
  Link& operator[](Level level) noexcept { return links[static_cast<std::size_t>(level)]; }
  bool tells_racks() const noexcept { return links[2] != Link{}; }
  /// The link between racks. If it is not set: latency and overhead of the link between hosts, unlimited bandwidth.
  Link beyond() const noexcept { return tells_racks() ? links[2] : Link{links[1].latency, 0, links[1].overhead}; }
};

/// A predefined network.
struct NamedNetwork {
  std::string_view name;     ///< "fabric"
  std::string_view meaning;  ///< one line
  Network network;
};
std::span<const NamedNetwork> named_networks() noexcept;

/// The network "tcp", which is used if nothing has been measured or set.
const Network& default_network() noexcept;

/// Parses a name of named_networks(), or a list of "LEVEL LATENCY BANDWIDTH [OVERHEAD]", "fold BANDWIDTH" and "cores
/// NUMBER": "within 0.3us 10G, between 2us 12.5G 0.4us, beyond 5us 50G, fold 10G". A name may also stand before the
/// list. Bandwidths are in bytes a second. A missing part is that of the named network, or of default_network(). A
/// missing overhead is a quarter of the latency. "cores 4": see Network::cores. Throws Error{invalid}.
Network parse_network(std::string_view text);

/// Text that parse_network() accepts: "12.5us".
std::string time_text(double seconds);
std::string to_string(const Network& network);

}  // namespace tutti::model
