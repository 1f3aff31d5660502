// Provider: what a folder under transports/ registers with tutti_provider().
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "transports/backend.hpp"
#include "transports/core/accelerator.hpp"
#include "transports/core/settings.hpp"
#include "transports/core/store.hpp"
#include "transports/transport.hpp"

namespace tutti {

/// Whether something can be used here, and if not, why not, as a clause: "memfd_create is refused (EPERM)".
struct Viability {
  bool viable = true;
  std::string reason;
  bool misfit = false;  ///< another variant of its name is meant for this process, and its reason is the one to tell
};

/// A communicator of a library that the program uses already, as an integer that the library understands
/// (for MPI: MPI_Comm_c2f); its ranks are the world's.
inline constexpr std::int64_t no_native = -1;

/// What a transport needs to find its peers. Borrowed; valid for the duration of connect().
struct Rendezvous {
  int rank = 0;
  int size = 1;
  std::vector<int> peers;                 ///< world ranks to reach by this transport, ascending, without `rank`
  std::vector<int> cores;                 ///< of this host, that those of them that are on it and `rank` may use
  Store* store = nullptr;                 ///< already prefixed for this transport
  const Settings* settings = nullptr;     ///< settings->job and ->secret name the job and prove membership
  TransportListener* listener = nullptr;  ///< outlives the transport
  Deadline until = never;
  std::int64_t native = no_native;
};

/// A connected transport, or the ranks that it could not reach with the reason (then another
/// provider takes them). Which ranks reach one another is symmetric.
struct Connected {
  std::unique_ptr<Transport> transport;
  std::vector<int> unreached;
  std::string reason;
};

/// What a backend needs to be made for one communicator. Borrowed; valid for the duration of make_backend(), but the
/// store, which whoever holds it may use for longer, and the wire.
struct BackendMeeting {
  const Group* group = nullptr;
  int world_size = 1;
  std::shared_ptr<Store> store;  ///< already prefixed for this backend and communicator; null for a world of one
  const Settings* settings = nullptr;
  Deadline until = never;
  std::int64_t native = no_native;
  int local_rank = 0;  ///< this process's number among the job's ranks on its host
  Transport* wire =
      nullptr;  ///< of the context: for the token's holder, while a call is under way; null: there is none
};

/// Offers a transport, or collectives of its own, or both.
struct Provider {
  std::string_view name;
  std::string_view meaning;  ///< one line for `tutti info`
  Viability (*viable)(const Settings&);
  /// Ranks with equal domains may try to reach one another. Empty: everyone.
  std::string (*domain)(const Settings&) = nullptr;
  /// Collective among rank and peers; blocks until connected or ready to connect lazily.
  /// Throws Error{timeout, resource, ...}. Null: it has no transport.
  Connected (*connect)(const Rendezvous&) = nullptr;

  /// The algorithms that its own collectives have for a kind, of which the first is the default and may be
  /// ""; empty: it has not got this kind.
  std::span<const std::string_view> (*algorithms)(Kind) = nullptr;
  /// Collective among the group's members; may block. Throws Error{timeout, resource, ...}. Null: it has no
  /// collectives of its own, or they come with its transport.
  std::unique_ptr<Backend> (*make_backend)(const BackendMeeting&) = nullptr;

  /// Whose memory its own collectives work on.
  Device::Kind collects = Device::Kind::cpu;

  /// Its device runtime, for ever; one without devices says why. Null: it is none. See accelerators.hpp.
  Accelerator& (*accelerator)(const Settings&) = nullptr;

  /// What there is of it on this host, a line each for `tutti info`: devices, ports. Null: nothing to say.
  std::vector<std::string> (*details)(const Settings&) = nullptr;
};

/// The built-in providers, in order of preference (generated).
std::span<const Provider* const> providers() noexcept;

}  // namespace tutti
