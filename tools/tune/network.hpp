// The measuring of the network: what messages and folding cost here, as the model of collectives wants it.
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
  double burst = 0;             ///< so many small ones at once in one direction, until all are there
};
inline constexpr std::size_t small_bytes = 8;

/// The overhead is what each message of the burst adds; the latency is the small message's time without the overheads
/// at both ends; and the bandwidth follows from what the large message takes longer than the medium one. No figure is
/// below what a clock tells, whatever was measured, and the latency is at least a tenth of the small message's time.
model::Link fit_link(const LinkTimes& times) noexcept;

/// The link where ranks share processors and each message keeps one for `busy` seconds at either end: a message takes
/// as long as before, but the part of it in which a rank sleeps and is woken is latency.
model::Link with_overhead(model::Link link, double busy) noexcept;

/// Core numbers, as far as there is room.
using CoreSet = std::bitset<1024>;

/// A process of a job: the machine that it is on, and the host, of those that the machine may play several of.
struct Place {
  std::uint64_t machine = 0;
  int host = 0;
  int quota = 0;       ///< cores that its cgroup may use at a time; any number where there is no quota
  CoreSet cores = {};  ///< that it may run on
};
/// As model::Network::cores has it, of the machine with the most ranks for each of its cores; 0 where no machine has
/// more ranks than cores.
double cores_of_hosts(std::span<const Place> ranks);

/// The levels that could be measured.
struct MeasuredNetwork {
  std::optional<model::Link> within, between, beyond;
  double fold_per_byte = 0;  ///< seconds
  double cores = 0;          ///< as model::Network has it
};

/// Measures between pairs of ranks of a host, then between a rank of each host and one of another, of its rack where
/// there are racks, and then between the hosts of a rack and those of another, all pairs at the same time as in a
/// collective, and the folding on rank 0. The median of the pairs counts. Takes about two seconds a level. Where ranks
/// outnumber the cores, what a message costs a core is measured with all of them busy. Collective; only rank 0's result
/// is to be used.
MeasuredNetwork measure_network(Communicator& world);

/// What model::parse_network() takes, without the levels that were not measured: "within 0.3us 10G 0.1us, fold 10G".
std::string text_of(const MeasuredNetwork& network);

}  // namespace tutti::tune
