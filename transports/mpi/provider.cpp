// The provider mpi: MPI's collectives as a backend, and its messages as a transport for the built-in algorithms.
#include "tutti/provider/provider.hpp"

#include <set>
#include <sstream>

#include "transports/mpi/backend.hpp"
#include "transports/mpi/family.hpp"
#include "transports/mpi/meeting.hpp"
#include "transports/mpi/wire.hpp"
#include "tutti/store.hpp"

namespace tutti {
namespace {

/// The ranks connected with this one, directly or through others; they share one communicator. Each rank publishes its
/// own peers, and reads the peers of its peers, the peers of these, and so on.
std::vector<int> connected_ranks(const Rendezvous& meeting) {
  std::ostringstream mine;
  for (const int peer : meeting.peers) mine << peer << ' ';
  meeting.store->set("peers/" + std::to_string(meeting.rank), mine.str());
  std::set<int> known{meeting.rank};
  std::vector<int> unasked(meeting.peers);
  while (!unasked.empty()) {
    const int one = unasked.back();
    unasked.pop_back();
    if (!known.insert(one).second) continue;
    std::istringstream its(
        meeting.store->wait_unless("peers/" + std::to_string(one), departure_key(one), meeting.until));
    for (int peer = 0; its >> peer;) unasked.push_back(peer);
  }
  return {known.begin(), known.end()};
}

Connected connect(const Rendezvous& meeting) {
  std::vector<int> ranks = meeting.peers.empty() ? std::vector{meeting.rank} : connected_ranks(meeting);
  constexpr std::uint64_t wire_name = 0x7769;
  auto comm = mpi::meet(
      {meeting.native, meeting.size, meeting.rank, ranks, wire_name, meeting.store, meeting.settings, meeting.until});
  mpi::Session& session = comm->session();
  auto wire =
      std::make_unique<mpi::MpiWire>(session, std::move(comm), std::move(ranks), meeting.size, *meeting.listener);
  return {make_stream_transport("mpi", meeting.rank, meeting.size, std::move(wire), *meeting.listener), {}, {}};
}

constexpr Provider mpi_provider{"mpi",
                                "MPI's own collectives, and its messages",
                                mpi::viable,
                                [](const Settings&) { return std::string(mpi::family); },
                                connect,
                                mpi::algorithms,
                                mpi::make_backend};

}  // namespace
}  // namespace tutti

extern "C" const tutti::Module* tutti_module() {
  static constexpr tutti::Module module{.provider = &tutti::mpi_provider};
  return &module;
}
