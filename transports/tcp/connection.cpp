// Connection: see connection.hpp.
#include "transports/tcp/connection.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace tutti::tcp {
namespace {

std::string advice(const Connection& lost) {
  if (!lost.no_files.empty()) return ". " + lost.no_files;
  const std::string alone =
      lost.peer->candidates.empty() ? ": it has no address in a network that this rank is in" : "";
  const bool refused = !lost.failures.empty() && std::ranges::all_of(lost.failures, [](const auto& failure) {
    return failure.second == std::strerror(ECONNREFUSED);
  });
  return alone + (refused ? ". Its process has ended or was killed: see its own output."
                          : ". Check firewalls, or name a network that all hosts share in TUTTI_IFACE.");
}

}  // namespace

std::string Connection::failures_text(int rank) const {
  std::string text = "rank " + std::to_string(rank) + " on host " + peer->endpoint.host + " cannot be reached by tcp";
  for (const auto& [where, why] : failures) text += "; " + where + ": " + why;
  return text;
}

Cause Connection::cause_of_loss(int rank, int reporter) const {
  Cause cause;
  cause.code = Code::peer_lost;
  cause.culprit = rank;
  cause.reporter = reporter;
  std::strncpy(cause.host, peer->endpoint.host.c_str(), sizeof cause.host - 1);
  cause.say(failures_text(rank) + advice(*this));
  return cause;
}

}  // namespace tutti::tcp
