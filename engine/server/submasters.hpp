// Sub-masters: groups of workers, each with a master of its own, under one top master.
#pragma once

#include <memory>
#include <string>

#include "engine/config.hpp"
#include "engine/models/network.hpp"
#include "engine/server/roles.hpp"
#include "engine/server/submaster_exchange.hpp"
#include "tutti/communicator.hpp"
#include "tutti/parameter_server.hpp"

namespace tutti::engine {

/// The objects of the hierarchy that this rank uses; the others are null.
struct Hierarchy {
  std::shared_ptr<ParameterServer> top;           ///< the top master's parameter server; its server is rank 0
  std::shared_ptr<ParameterServer> group;         ///< the parameter server of this rank's group; null on rank 0
  std::shared_ptr<TopMembers> members;            ///< on rank 0
  std::unique_ptr<SubmasterExchange> submaster;   ///< on a sub-master
  std::shared_ptr<TopConnection> top_connection;  ///< on the rank of a worker that talks to its sub-master
};

/// Connects the top master, the sub-masters and the workers. Collective over `world`; blocks. `group` has the servers,
/// workers and rules of this rank's group, as for a run without a top master. Training begins with the parameters of
/// the first sub-master's network. They reach a group in its sub-master's begin(). Throws as ParameterServer does.
Hierarchy connect_groups(const Config& config, const Roles& roles, Communicator& world, const Network& network,
                         ParameterServer::Options group);

/// The prefix of a group's own keys in the store.
std::string group_keys(std::size_t group);

}  // namespace tutti::engine
