#include "tools/info/availability.hpp"

#include "collectives/algorithm.hpp"
#include "collectives/planned_backend.hpp"
#include "transports/modules.hpp"

namespace tutti::tools {
namespace {

using State = Availability::State;

// A cell for each device: the one that it works on, and the other.
void add(std::vector<Availability>& cells, Kind kind, const std::string& target, State state, std::string_view note,
         Device::Kind on = Device::Kind::cpu) {
  const bool lacking = state == State::unimplemented, host = on == Device::Kind::cpu;
  const std::string_view other = lacking ? note : host ? "not on GPU buffers" : "on GPU buffers alone";
  const Availability here{kind, on, target, state, std::string(note)};
  const Availability there{kind, host ? Device::Kind::cuda : Device::Kind::cpu, target, State::unimplemented,
                           std::string(other)};
  cells.push_back(host ? here : there);
  cells.push_back(host ? there : here);
}

// The backends beside our own plans that this installation knows of.
struct Foreign {
  std::string name;
  Found found;
};

std::vector<Foreign> foreign_backends(const Settings& settings) {
  std::vector<Foreign> backends;
  for (const std::string& name : provider_names(settings)) {
    Found found = find_provider(name, settings);
    if (found.provider == nullptr || found.provider->algorithms != nullptr)
      backends.push_back({name, std::move(found)});
  }
  return backends;
}

void add(std::vector<Availability>& cells, Kind kind, const Foreign& backend) {
  const auto& [name, found] = backend;
  if (found.provider == nullptr) return add(cells, kind, name, State::unavailable, found.reason);
  const auto algorithms = found.provider->algorithms(kind);
  if (algorithms.empty()) return add(cells, kind, name, State::unimplemented, name + " has not got it");
  for (const std::string_view algorithm : algorithms)
    add(cells, kind, name + (algorithm.empty() ? "" : "/" + std::string(algorithm)),
        found.reason.empty() ? State::available : State::unavailable,
        found.reason.empty() ? found.provider->meaning : std::string_view(found.reason), found.provider->collects);
}

}  // namespace

std::string_view name(State state) noexcept {
  constexpr std::string_view names[] = {"available", "unavailable", "unimplemented"};
  return names[static_cast<int>(state)];
}

std::vector<Availability> availability(const Settings& settings) {
  const std::vector<Foreign> foreign = foreign_backends(settings);
  std::vector<Availability> cells;
  for (int k = 0; k <= static_cast<int>(Kind::barrier); ++k) {
    const auto kind = static_cast<Kind>(k);
    for (const Algorithm* algorithm : catalog())
      if (algorithm->kind == kind)
        add(cells, kind, std::string(PlannedBackend::own_name) + "/" + std::string(algorithm->name), State::available,
            std::string(algorithm->idea) + (algorithm->variable ? " (v-form too)" : ""));
    for (const Foreign& backend : foreign) add(cells, kind, backend);
  }
  return cells;
}

}  // namespace tutti::tools
