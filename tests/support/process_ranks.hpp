// Ranks of a transport's test as processes: TUTTI_TEST_PROVIDER names the provider, and a launcher has started one
// process for each rank. Without that variable, ranks are threads (see ranks.hpp).
#pragma once

#include <cstdlib>
#include <memory>
#include <string>

#include "tutti/bootstrap.hpp"
#include "tutti/provider/provider.hpp"
#include "tutti/store.hpp"

namespace tutti::testing {

/// This process among the ranks; size 0 if ranks are threads. Bootstrapped once per process.
struct ProcessWorld {
  Bootstrap self;
  const Provider* provider = nullptr;
  int runs = 0;  ///< number of tests so far; all processes count the same

  bool there() const noexcept { return provider != nullptr; }
  /// Returns the store of the next test.
  std::shared_ptr<Store> next_store() {
    const std::string run = "run/" + std::to_string(++runs);
    return self.size > 1 ? make_prefix_store(self.store, run) : make_local_store();
  }
};

inline ProcessWorld& process_world() {
  static ProcessWorld world = [] {
    ProcessWorld made;
    const char* const name = std::getenv("TUTTI_TEST_PROVIDER");
    if (name == nullptr) return made;
    made.self = bootstrap_from_environment(Settings::from_environment());
    const Found found = find_provider(name, made.self.settings);
    if (!found.reason.empty()) throw Error(Code::unsupported, std::string(name) + ": " + found.reason);
    made.provider = found.provider;
    return made;
  }();
  return world;
}

}  // namespace tutti::testing
