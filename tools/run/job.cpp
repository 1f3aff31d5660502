// Makes what a session of the launcher needs: the ranks, and the store in which they meet.
#include "tools/run/job.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "collectives/bootstrap/socket.hpp"
#include "tools/run/addresses.hpp"
#include "tools/run/make_ranks.hpp"
#include "tools/run/session.hpp"
#include "tools/run/spawn.hpp"
#include "tutti/store.hpp"

namespace tutti::tools {
namespace {

/// Starts a store that the ranks can reach, unless the user has named one. Returns its URL for this process.
std::string serve_store(Job& job, std::optional<TcpStoreServer>& server) {
  if (job.variables.contains("TUTTI_STORE")) return job.variables.at("TUTTI_STORE");
  const std::string loopback = sockets::loopback_host(), secret = job.variables.at("TUTTI_SECRET");
  server.emplace(job.hosts.empty() ? loopback : job.address, 0, secret,
                 static_cast<std::size_t>(std::max(job.ranks, job.elastic.most)));
  if (job.hosts.empty()) {
    job.variables["TUTTI_STORE"] = store_url(loopback, server->port());
  } else if (!job.address.empty()) {
    job.stores = {store_url(job.address, server->port())};
  } else {
    for (const std::string& address : own_addresses()) job.stores.push_back(store_url(address, server->port()));
  }
  return job.stores.empty() ? job.variables.at("TUTTI_STORE") : job.stores.back();
}

/// Returns the launcher's number of descriptors: two per rank or host that it starts, and the clients of its store.
std::size_t descriptors_for(const Job& job) {
  const auto ranks = static_cast<std::size_t>(job.ranks);
  const std::size_t clients = job.variables.contains("TUTTI_STORE") ? 0 : ranks;
  const std::size_t started =
      job.hosts.empty() ? ranks : std::min(job.hosts.size(), static_cast<std::size_t>(job.fan_out));
  return clients + 2 * started;
}

}  // namespace

int run_job(const Job& asked) {
  Job job = asked;
  raise_descriptor_limit(job.ranks);
  if (const std::string why = too_few_descriptors(descriptors_for(job)); !why.empty()) {
    fmt::print(stderr, "tutti run: {}\n", why);
    return exit_not_executable;
  }
  Signals signals;
  Sinks sinks;
  const auto ranks = job.hosts.empty() ? make_local_ranks(job, sinks) : make_remote_ranks(job, sinks);
  // The guard must be forked while this process has one thread, so the server, which starts a thread, comes after it.
  std::optional<TcpStoreServer> server;
  const std::string store = serve_store(job, server);
  Departures departures(store, job.variables.at("TUTTI_SECRET"), job.variables.at("TUTTI_JOB"), job.ranks);
  return Session(job, signals, sinks, *ranks, departures).run();
}

}  // namespace tutti::tools
