// Request: the values of the flags of `tutti plan`. A lane is a part of the buffer that has a schedule of its own.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "collectives/model/estimate.hpp"
#include "collectives/model/network.hpp"
#include "collectives/plan/schedule.hpp"
#include "tutti/collective.hpp"
#include "tutti/topology.hpp"

namespace tutti::planning {

/// How ranks are placed on hosts: in blocks of equal or nearly equal sizes, in turns, or in blocks of given sizes.
/// Hosts are placed in racks in blocks of equal or nearly equal sizes.
struct Layout {
  enum class Order { blocks, turns, listed } order = Order::blocks;
  std::vector<int> sizes = {};  ///< ranks of each host, for Order::listed
  int racks = 1;                ///< number of racks, at most the number of hosts

  std::shared_ptr<const Hosts> hosts(int ranks, int hosts) const;
};

struct Request {
  Kind kind = Kind::allreduce;
  DType dtype = DType::f32;
  Layout layout;
  std::shared_ptr<const Hosts> hosts;
  Shape shape;  ///< the shape of rank 0, with the hosts
  model::Network network;
  std::string network_name;           ///< empty: the network has no name
  std::string algorithm = "chosen";   ///< a name, "all" or "chosen"
  std::size_t lanes = 0;              ///< number of lanes; 0: as the model chooses
  model::Limits limits;               ///< limits of lanes, from the settings
  std::optional<int> rank;            ///< the rank whose rounds are printed
  std::size_t lane = 0;               ///< the lane whose rounds are printed
  bool all_ranks = false;             ///< print the rounds of all ranks
  int steps = 24;                     ///< the largest number of rounds printed of one rank
  bool check = false, whole = false;  ///< whole: simulate and check the call, however long that takes
  std::string sweep;                  ///< what is swept: "bytes", "ranks" or "hosts"; empty: nothing
  bool by_replay = false;             ///< costs of a sweep come from simulation, not from formulas
  std::string svg_file, json_file;
  std::string rule;  ///< the rule that a job would apply before it chooses by cost; empty: none
  std::string note;  ///< how the request was changed; empty: not at all

  std::size_t width() const noexcept { return size_of(dtype); }
  std::size_t bytes() const noexcept { return shape.count * width(); }  ///< bytes of the buffer, or of one block
  bool has_blocks() const noexcept;                                     ///< true: `bytes` are those of one rank's block
};

/// Parses the flags. Throws Error{invalid} with one line that says what to do, and tools::Finished after --help.
Request parse_request(const std::vector<std::string>& arguments);

/// Return the same call with another number of bytes, ranks or hosts. With another number of ranks, the number of hosts
/// stays; with another number of hosts, the ranks of each host stay.
Request with_bytes(Request request, std::size_t bytes);
Request with_ranks(Request request, int ranks, int hosts);

}  // namespace tutti::planning
