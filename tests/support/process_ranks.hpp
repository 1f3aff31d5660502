// The ranks of a transport's test as processes: TUTTI_TEST_PROVIDER names the provider, and a launcher has started as
// many as there are to be. Without that variable, ranks are threads (see ranks.hpp).
#pragma once

#include <cstdlib>
#include <memory>
#include <string>

#include "tutti/bootstrap.hpp"
#include "tutti/provider/provider.hpp"
#include "tutti/store.hpp"

namespace tutti::testing {

/// What this process is among the others; size 0 where ranks are threads. Met once.
struct ProcessWorld {
  Bootstrap self;
  const Provider* provider = nullptr;
  int runs = 0;  ///< tests that were played; all processes count alike

  bool there() const noexcept { return provider != nullptr; }
  /// Of the next test.
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
