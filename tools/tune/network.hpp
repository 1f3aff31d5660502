// Measures the network: what messages and folding cost on this machine, for the model of collectives.
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "collectives/model/network.hpp"
#include "tutti.hpp"

namespace tutti::tune {

/// Times of messages between two ranks, in seconds.
struct LinkTimes {
  double small = 0;  ///< a message of small_bytes, one way
  std::size_t medium_bytes = 0;
  double medium = 0;            ///< one way
  std::size_t large_bytes = 0;  ///< more than medium_bytes
  double large = 0;             ///< one way
  int burst_messages = 0;       ///< at least 1
  double burst = 0;             ///< burst_messages small messages sent at once in one direction, until all have arrived
};
inline constexpr std::size_t small_bytes = 8;

/// Computes a link from times. The overhead is what each message of the burst adds. The latency is the small message's
/// time without the overheads at both ends. The bandwidth follows from the difference between the large and the medium
/// message. No figure is below a clock's resolution, and the latency is at least a tenth of the small message's time.
model::Link fit_link(const LinkTimes& times) noexcept;

/// Returns the link for ranks that share processors, where each message keeps a processor busy for `busy` seconds at
/// either end. The time of a message stays the same: what is not overhead counts as latency, such as sleep and wake-up.
model::Link with_overhead(model::Link link, double busy) noexcept;

/// Core numbers below 1024.
using CoreSet = std::bitset<1024>;

/// Where a process of a job runs: the machine, and the host. One machine may stand for several hosts (containers).
struct Place {
  std::uint64_t machine = 0;
  int host = 0;
  int quota = 0;       ///< cores that its cgroup may use at a time; a large number if there is no quota
  CoreSet cores = {};  ///< the cores that it may run on
};
/// Returns the value for model::Network::cores, of the machine with the most ranks per core; 0 if no machine has more
/// ranks than cores.
double cores_of_hosts(std::span<const Place> ranks);

/// The levels of the network (within hosts, between hosts, between racks) that could be measured.
struct MeasuredNetwork {
  std::optional<model::Link> within, between, beyond;
  double fold_per_byte = 0;  ///< seconds
  double cores = 0;          ///< see model::Network
};

/// Measures messages between pairs of ranks: of one host; then of two hosts of one rack, if there are racks; then of
/// hosts of two racks. All pairs run at the same time as in a collective, and the median of the pairs counts. Takes
/// about two seconds per level. Also measures folding on rank 0. If there are more ranks than cores, measures what a
/// message costs a core while all cores are busy. Collective; only rank 0's result is valid.
MeasuredNetwork measure_network(Communicator& world);

/// Returns text for model::parse_network(), without levels that were not measured: "within 0.3us 10G 0.1us, fold 10G".
std::string text_of(const MeasuredNetwork& network);

}  // namespace tutti::tune
