// The provider "shm": ranks of one host, connected by rings in a shared segment.
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "transports/core/host.hpp"
#include "transports/shm/backend.hpp"
#include "transports/shm/meeting.hpp"
#include "transports/shm/segment.hpp"
#include "transports/shm/settings.hpp"
#include "tutti/log.hpp"
#include "tutti/provider/provider.hpp"

namespace tutti {
namespace {

Viability shm_viable(const Settings& settings) {
  int error = 0;
  const std::string folder = settings.of(shm_dir);
  if (shm::memfd_works(error) || ::access(folder.c_str(), W_OK | X_OK) == 0) return {};
  return {false, std::string("memfd_create is refused (") + std::strerror(error) + ") and TUTTI_SHM_DIR=" + folder +
                     " cannot be written"};
}

std::string shm_domain(const Settings& settings) { return host_identity(settings.host_id); }

Connected shm_connect(const Rendezvous& rendezvous) {
  shm::Met met = shm::meet(rendezvous);
  Connected connected;
  connected.unreached = std::move(met.unreached);
  connected.reason = std::move(met.reason);
  for (const int rank : connected.unreached)
    log(LogLevel::info, "no shared memory with rank " + std::to_string(rank) + ": " + connected.reason,
        rendezvous.rank);
  if (met.wire)
    connected.transport =
        make_stream_transport("shm", rendezvous.rank, rendezvous.size, std::move(met.wire), *rendezvous.listener);
  return connected;
}

}  // namespace

extern const Provider shm_provider;
const Provider shm_provider = {
    "shm", "ranks of one host, over shared memory", shm_viable, shm_domain, shm_connect, shm::engine_names,
};

}  // namespace tutti
