// The provider throwaway, with which recipe_test.py follows CONTRIBUTING.md's recipe. Its connections are made by tcp.
#include "transports/throwaway/settings.hpp"
#include "tutti/provider/provider.hpp"

namespace tutti {
namespace {

Viability viable(const Settings& settings) {
  if (settings.of(throwaway_patience) > 0) return {};
  return {false, "throwaway_patience is 0"};
}

std::string domain(const Settings&) { return {}; }

Connected connect(const Rendezvous& meeting) {
  return find_provider("tcp", *meeting.settings).provider->connect(meeting);
}

}  // namespace

extern const Provider throwaway_provider;
const Provider throwaway_provider{"throwaway", "for tests: what tcp does", viable, domain, connect};

}  // namespace tutti
