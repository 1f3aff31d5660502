// Provider: the entry that a folder under transports/ registers with tutti_provider().
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/accelerator.hpp"
#include "tutti/provider/backend.hpp"
#include "tutti/provider/transport.hpp"
#include "tutti/settings.hpp"
#include "tutti/store.hpp"

namespace tutti {

/// Whether something is usable, and if not, the reason as a clause: "memfd_create is refused (EPERM)".
struct Viability {
  bool viable = true;
  std::string reason;
  bool misfit = false;  ///< another variant of the name fits this process, and its reason is the one to report
};

/// `native` is a communicator with the world's ranks that the program has in the provider's library, as an integer
/// (MPI: MPI_Comm_c2f). no_native: none.
inline constexpr std::int64_t no_native = -1;

/// What a transport needs to connect to its peers. Borrowed; valid during connect().
struct Rendezvous {
  int rank = 0;
  int size = 1;
  std::vector<int> peers;                 ///< world ranks to reach by this transport, ascending, without `rank`
  bool one_host = false;                  ///< all peers share this rank's host, and its network with it
  std::vector<int> cores;                 ///< cores of this host that `rank` and its peers on this host may use
  Store* store = nullptr;                 ///< already prefixed for this transport
  const Settings* settings = nullptr;     ///< settings->job and ->secret identify the job and prove membership
  TransportListener* listener = nullptr;  ///< outlives the transport
  Deadline until = never;
  std::int64_t native = no_native;
};

/// A connected transport; or the ranks that it could not reach, with the reason, for another provider to connect.
/// Reachability is symmetric.
struct Connected {
  std::unique_ptr<Transport> transport;
  std::vector<int> unreached;
  std::string reason;
};

/// What a backend needs to be made for one communicator. Borrowed; valid during make_backend(), except for the store,
/// whose owners may keep it, and the wire.
struct BackendMeeting {
  const Group* group = nullptr;
  int world_size = 1;
  std::shared_ptr<Store> store;  ///< already prefixed for this backend and communicator; null for a world of one
  const Settings* settings = nullptr;
  Deadline until = never;
  std::int64_t native = no_native;
  int local_rank = 0;  ///< this process's index among the job's ranks on its host
  Transport* wire =
      nullptr;  ///< the context's transport, for the holder of the progress token while a call is in flight; null: none
};

/// Provides a transport, collectives of its own, or both.
struct Provider {
  std::string_view name;
  std::string_view meaning;  ///< one line for `tutti info`
  Viability (*viable)(const Settings&);
  /// Only ranks with equal domains try to reach one another. Empty: no restriction.
  std::string (*domain)(const Settings&) = nullptr;
  /// Collective among rank and peers; blocks until connected, or ready to connect lazily. Throws Error{timeout,
  /// resource, ...}. Null: there is no transport.
  Connected (*connect)(const Rendezvous&) = nullptr;

  /// Names of this provider's own algorithms for a kind, the default first, which may be ""; empty: the kind is not
  /// supported.
  std::span<const std::string_view> (*algorithms)(Kind) = nullptr;
  /// Collective among the group's members; may block. Throws Error{timeout, resource, ...}. Null: there are no
  /// collectives, or its transport makes them.
  std::unique_ptr<Backend> (*make_backend)(const BackendMeeting&) = nullptr;

  /// The kind of memory that its collectives work on.
  Device::Kind collects = Device::Kind::cpu;

  /// Its device runtime, never destroyed; if it has no devices, it gives the reason. Null: not a device runtime. See
  /// accelerators.hpp.
  Accelerator& (*accelerator)(const Settings&) = nullptr;

  /// Lines about this host for `tutti info`: devices, ports. Null: none.
  std::vector<std::string> (*details)(const Settings&) = nullptr;
};

/// The built-in providers, in order of preference (generated).
std::span<const Provider* const> providers() noexcept;

/// Changes with every change of a header that modules are compiled with: of include/tutti/, transports/*.hpp and
/// transports/core/, not of a provider's folder, as for its settings.
inline constexpr std::string_view module_abi = "tutti module 20";

/// The result of a module's tutti_module(). `abi` must stay the first member in all versions, so that a module of
/// another version is refused with a message instead of crashing.
struct Module {
  const char* abi = module_abi.data();
  const Provider* provider = nullptr;
};

/// A provider by name, and why it does not work; of several variants, the first viable one.
struct Found {
  const Provider* provider = nullptr;
  std::string reason;  ///< a clause; empty where it is viable
};

/// Opens the modules of that name at the first call; they are never closed. Any thread.
Found find_provider(std::string_view name, const Settings& settings);

/// Returns true if the module is installed and this host has the devices that it needs, if any. Then it is worth
/// opening although no setting names it. Opens nothing. Any thread.
bool is_worth_finding(std::string_view name, const Settings& settings);

/// The folder of libtutti; empty if it is linked statically.
std::string library_folder();

/// Names of the built-in providers and of the installed modules, in order of preference; opens nothing.
std::vector<std::string> provider_names(const Settings& settings);

}  // namespace tutti

/// Every module defines it, as its only exported symbol.
extern "C" __attribute__((visibility("default"))) const tutti::Module* tutti_module();
