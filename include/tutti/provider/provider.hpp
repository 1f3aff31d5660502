// Provider: the entry that a folder under transports/ registers with tutti_provider().
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/accelerator.hpp"
#include "tutti/provider/backend.hpp"
#include "tutti/provider/texts.hpp"
#include "tutti/provider/transport.hpp"
#include "tutti/settings.hpp"
#include "tutti/store.hpp"

namespace tutti {

/// Says if something is usable, and if not, gives the reason as a clause: "memfd_create is refused (EPERM)".
struct Viability {
  bool viable = true;
  std::string reason;
  bool misfit = false;  ///< true: not this process's variant of the module; errors prefer another variant's reason
};

/// The value of `native` below if the program has none. `native` is the program's communicator of all ranks of the job
/// in the provider's own library, as an integer (MPI: MPI_Comm_c2f).
inline constexpr std::int64_t no_native = -1;

/// The information that a transport needs to connect to its peers. Borrowed; valid during connect().
struct Rendezvous {
  int rank = 0;
  int size = 1;
  std::vector<int> peers;                 ///< world ranks to reach by this transport, ascending, without `rank`
  bool one_host = false;                  ///< all peers are on this rank's host and share its network
  std::vector<int> cores;                 ///< cores of this host that `rank` and its peers on this host may use
  Store* store = nullptr;                 ///< a view of the job's store with a prefix for this transport
  const Settings* settings = nullptr;     ///< settings->job and ->secret identify the job and prove membership
  TransportListener* listener = nullptr;  ///< outlives the transport
  Deadline until = never;
  std::int64_t native = no_native;
  /// An allgather of texts along a tree, if all ranks of the job connect by this provider. Collective over the job;
  /// each `name` is used once. Empty if not all ranks connect; they use the store. texts_of_peers() covers both cases.
  std::function<Texts(std::string_view name, const Text& mine)> exchange = {};

  /// Exchanges texts with `peers`; each of them calls this with the same `name`. The result is by world rank. The texts
  /// of ranks that are no peers may be empty. Blocks. Throws Error{timeout, peer_lost}.
  Texts texts_of_peers(std::string_view name, const Text& mine) const;
};

/// A connected transport, and the peers that it could not reach, with the reason; the next provider tries to connect
/// these. Reachability is symmetric.
struct Connected {
  std::unique_ptr<Transport> transport;
  std::vector<int> unreached;
  std::string reason;
};

/// The information that a backend of one communicator is made from. Borrowed; valid during make_backend(). The backend
/// may keep the store and the wire.
struct BackendMeeting {
  const Group* group = nullptr;
  int world_size = 1;
  std::shared_ptr<Store> store;  ///< a view of the store for this backend and communicator; null in a job of one rank
  const Settings* settings = nullptr;
  Deadline until = never;
  std::int64_t native = no_native;
  int local_rank = 0;  ///< this process's index among the job's ranks on its host
  Transport* wire =
      nullptr;  ///< the rank's transport, to be used with the progress token held and a call in flight; null: none
};

/// Provides a transport, collectives of its own, or both.
struct Provider {
  std::string_view name;
  std::string_view meaning;  ///< one line for `tutti info`
  Viability (*viable)(const Settings&);
  /// Only ranks with equal domains try to reach one another. Empty: no restriction.
  std::string (*domain)(const Settings&) = nullptr;
  /// Collective over this rank and its peers. Blocks until connected, or until ready to connect lazily. Throws
  /// Error{timeout, resource, ...}. Null: the provider has no transport.
  Connected (*connect)(const Rendezvous&) = nullptr;

  /// Names of this provider's own algorithms for a kind, the default first, whose name may be "". An empty list means
  /// that the kind is not supported.
  std::span<const std::string_view> (*algorithms)(Kind) = nullptr;
  /// Collective over the group; may block. Throws Error{timeout, resource, ...}. Null: the provider has no collectives,
  /// or makes them in Transport::make_backend().
  std::unique_ptr<Backend> (*make_backend)(const BackendMeeting&) = nullptr;

  /// The kind of memory that the provider's collectives accept.
  Device::Kind collects = Device::Kind::cpu;

  /// The provider's device runtime, never destroyed. Without devices, its why_not() has the reason. Null: the provider
  /// is no device runtime. See transports/accelerators.hpp.
  Accelerator& (*accelerator)(const Settings&) = nullptr;

  /// Lines about this host for `tutti info`: devices, ports. Null: none.
  std::vector<std::string> (*details)(const Settings&) = nullptr;
};

/// The built-in providers, in order of preference (generated).
std::span<const Provider* const> providers() noexcept;

/// Changes with every change of a header that modules are compiled with: include/tutti/, transports/*.hpp,
/// transports/core/ and transports/stream/. Headers in a provider's own folder do not matter.
inline constexpr std::string_view module_abi = "tutti module 21";

/// The result of a module's tutti_module(). `abi` must stay the first member in all versions, so that a module of
/// another version is refused with a message instead of crashing.
struct Module {
  const char* abi = module_abi.data();
  const Provider* provider = nullptr;
};

/// A provider found by name, and the reason if it is not viable. If it has several variants, the first viable one.
struct Found {
  const Provider* provider = nullptr;
  std::string reason;  ///< a clause; empty if the provider is viable
};

/// Finds the provider `name`. Opens the modules of that name at the first call; they are never closed. Any thread.
Found find_provider(std::string_view name, const Settings& settings);

/// Returns true if the module is installed and this host has the devices that it needs, if any. Such a module is opened
/// even if no setting names it. Opens nothing itself. Any thread.
bool is_worth_finding(std::string_view name, const Settings& settings);

/// The folder of libtutti; empty if it is linked statically.
std::string library_folder();

/// Names of the built-in providers and of the installed modules, in order of preference; opens nothing.
std::vector<std::string> provider_names(const Settings& settings);

}  // namespace tutti

/// Every module defines this function, as its only exported symbol.
extern "C" __attribute__((visibility("default"))) const tutti::Module* tutti_module();
