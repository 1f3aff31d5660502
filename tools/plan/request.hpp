// Request: what the flags of `tutti plan` ask for.
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

/// How ranks lie on hosts: in blocks of equal or nearly equal sizes, in turns, or blocks of given sizes. Hosts lie in
/// racks in blocks of equal or nearly equal sizes.
struct Layout {
  enum class Order { blocks, turns, listed } order = Order::blocks;
  std::vector<int> sizes = {};  ///< of the hosts, where they are listed
  int racks = 1;                ///< no more than there are hosts

  std::shared_ptr<const Hosts> hosts(int ranks, int hosts) const;
};

struct Request {
  Kind kind = Kind::allreduce;
  DType dtype = DType::f32;
  Layout layout;
  std::shared_ptr<const Hosts> hosts;
  Shape shape;  ///< of rank 0, with the hosts
  model::Network network;
  std::string network_name;           ///< empty: it has none
  std::string algorithm = "chosen";   ///< a name, "all" or "chosen"
  std::size_t lanes = 0;              ///< 0: as the model says
  model::Limits limits;               ///< of lanes, as in the settings
  std::optional<int> rank;            ///< whose rounds are printed
  std::size_t lane = 0;               ///< whose rounds are printed
  bool all_ranks = false;             ///< prints those of all
  int steps = 24;                     ///< the most rounds that are printed of a rank
  bool check = false, whole = false;  ///< whole: whatever it costs
  std::string sweep;                  ///< empty, "bytes", "ranks" or "hosts"
  bool by_replay = false;             ///< the costs of the sweep
  std::string svg_file, json_file;
  std::string rule;  ///< that a job takes before it chooses by cost; empty: none
  std::string note;  ///< what was changed of the request; empty: nothing

  std::size_t width() const noexcept { return size_of(dtype); }
  std::size_t bytes() const noexcept { return shape.count * width(); }  ///< of the buffer, or of one block
  bool has_blocks() const noexcept;  ///< whether `bytes` are those of one rank's block
};

/// Throws Error{invalid} with one line that says what to do, and tools::Finished after --help.
Request parse_request(const std::vector<std::string>& arguments);

/// The same call with so many bytes, ranks or hosts. With other ranks, the number of hosts stays; with other hosts,
/// the ranks of each.
Request with_bytes(Request request, std::size_t bytes);
Request with_ranks(Request request, int ranks, int hosts);

}  // namespace tutti::planning
