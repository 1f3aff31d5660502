// A module for tests: the backend "instant", whose calls end inside start(). They succeed, except by its algorithms
// "fails" and "throws"; by "later" they end at the next poll. If the output has 8 bytes, the backend writes the time of
// start() there, as a std::int64_t of Clock.
#include <array>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "transports/causes.hpp"
#include "tutti/clock.hpp"
#include "tutti/provider/provider.hpp"

namespace tutti {
namespace {

constexpr std::array<std::string_view, 4> names = {"", "later", "fails", "throws"};

class InstantBackend final : public Backend {
 public:
  InstantBackend() { waiting_.reserve(1024); }
  std::string_view name() const noexcept override { return "instant"; }
  Status supports(const Collective& call, std::string_view algorithm) const override {
    return check_algorithm_name("instant", algorithm, call.kind, names);
  }
  void start(Call& call) override {
    const std::int64_t now = Clock::now().time_since_epoch().count();
    const Buffer& out = call.what.out;
    if (out.bytes() == sizeof now) std::memcpy(out.data, &now, sizeof now);
    if (call.algorithm == "later") return waiting_.push_back(&call);
    if (call.algorithm == "throws") throw std::runtime_error("it threw on purpose");
    call.ended(call.algorithm == "fails" ? Status::failure(Code::resource, "it failed on purpose") : Status());
  }
  void cancel(const Status& why) noexcept override { end_all(why); }
  bool progress() override { return end_all({}); }
  Fds fds() const noexcept override { return {}; }
  bool arm(bool on) override { return !on || waiting_.empty(); }

 private:
  bool end_all(const Status& status) {
    const bool any = !waiting_.empty();
    while (!waiting_.empty()) {
      Call* const one = waiting_.back();
      waiting_.pop_back();
      one->ended(status);
    }
    return any;
  }
  std::vector<Call*> waiting_;
};

std::span<const std::string_view> algorithms(Kind) { return names; }

const Provider provider{
    "instant",
    "for tests: calls that end at once",
    [](const Settings&) { return Viability{}; },
    nullptr,
    nullptr,
    algorithms,
    [](const BackendMeeting&) -> std::unique_ptr<Backend> { return std::make_unique<InstantBackend>(); }};

}  // namespace
}  // namespace tutti

extern "C" __attribute__((visibility("default"))) const tutti::Module* tutti_module() {
  static constexpr tutti::Module module{tutti::module_abi.data(), &tutti::provider};
  return &module;
}
