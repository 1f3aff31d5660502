// Provider: what a folder under transports/ registers with tutti_provider().
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "transports/core/settings.hpp"
#include "transports/core/store.hpp"
#include "transports/transport.hpp"

namespace tutti {

/// Whether something can be used here, and if not, why not, as a clause: "memfd_create is refused (EPERM)".
struct Viability {
  bool viable = true;
  std::string reason;
};

/// What a transport needs to find its peers. Borrowed; valid for the duration of connect().
struct Rendezvous {
  int rank = 0;
  int size = 1;
  std::vector<int> peers;                 ///< world ranks to reach by this transport, ascending, without `rank`
  Store* store = nullptr;                 ///< already prefixed for this transport
  const Settings* settings = nullptr;     ///< settings->job and ->secret name the job and prove membership
  TransportListener* listener = nullptr;  ///< outlives the transport
  Deadline until = never;
};

/// A connected transport, or the ranks that it could not reach with the reason (then another
/// provider takes them). Which ranks reach one another is symmetric.
struct Connected {
  std::unique_ptr<Transport> transport;
  std::vector<int> unreached;
  std::string reason;
};

struct Provider {
  std::string_view name;
  std::string_view meaning;  ///< one line for `tutti info`
  Viability (*viable)(const Settings&);
  /// Ranks with equal domains may try to reach one another. Empty: everyone.
  std::string (*domain)(const Settings&);
  /// Collective among rank and peers; blocks until connected or ready to connect lazily.
  /// Throws Error{timeout, resource, ...}.
  Connected (*connect)(const Rendezvous&);
};

/// The built-in providers, in order of preference (generated).
std::span<const Provider* const> providers() noexcept;

}  // namespace tutti
