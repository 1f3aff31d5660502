// A module for tests: the transport "counted", which is inproc and counts the control messages of all ranks. The first
// line of its details, which `tutti info` prints, is their number.
#include <atomic>
#include <memory>
#include <string>

#include "transports/decorators/decorator.hpp"
#include "tutti/provider/provider.hpp"

namespace tutti {
namespace {

std::atomic<std::size_t> controls{0};

class CountedControls final : public Decorator {
 public:
  using Decorator::Decorator;
  void control(int to, ConstBytes message) override {
    controls.fetch_add(1, std::memory_order_relaxed);
    Decorator::control(to, message);
  }
};

const Provider& inner(const Settings& settings) { return *find_provider("inproc", settings).provider; }

Connected connect(const Rendezvous& rendezvous) {
  Connected connected = inner(*rendezvous.settings).connect(rendezvous);
  if (connected.transport) connected.transport = std::make_unique<CountedControls>(std::move(connected.transport));
  return connected;
}

constexpr Provider provider{
    .name = "counted",
    .meaning = "inproc, whose control messages are counted, for tests",
    .viable = [](const Settings&) { return Viability{}; },
    .domain = [](const Settings& settings) { return inner(settings).domain(settings); },
    .connect = connect,
    .details = [](const Settings&) { return std::vector<std::string>{std::to_string(controls.load())}; }};

}  // namespace
}  // namespace tutti

extern "C" __attribute__((visibility("default"))) const tutti::Module* tutti_module() {
  static constexpr tutti::Module module{tutti::module_abi.data(), &tutti::provider};
  return &module;
}
