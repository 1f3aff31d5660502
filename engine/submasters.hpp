// Sub-masters: groups of workers, each with a master of its own, under one top master.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "collectives/tutti_parameter_server.hpp"
#include "engine/masters.hpp"
#include "engine/strategies/relay.hpp"

namespace tutti::engine {

/// roles_of() with strategy.submasters: rank 0 is the top master, the next ranks are the sub-masters, and the others
/// are workers, dealt out to the groups in blocks that differ by one worker at most.
Roles grouped_roles(const Config& config, int ranks);

/// What one rank has of all this.
struct Hierarchy {
  std::shared_ptr<ParameterServer> top;    ///< of which rank 0 is the server
  std::shared_ptr<ParameterServer> group;  ///< of this rank's group; rank 0 has none
  std::shared_ptr<TopMembers> members;     ///< of rank 0
  std::unique_ptr<Relay> relay;            ///< of a sub-master
  std::shared_ptr<TopSeat> seat;           ///< of a worker's process that talks to its sub-master
};

/// Collective over `world`. `group` has servers, workers and rules of this rank's group as if there were nothing above
/// it. All begin with the first sub-master's network; that the group's parameters are there is for begin() of its relay
/// to say. Throws as ParameterServer does.
Hierarchy connect_groups(const Config& config, const Roles& roles, Communicator& world, const Network& network,
                         ParameterServer::Options group);

/// What keys of the store begin with that are a group's own.
std::string group_keys(std::size_t group);

}  // namespace tutti::engine
