#include "tools/info/availability.hpp"

#include <algorithm>

#include "collectives/plan/algorithm.hpp"
#include "collectives/plan/planned_backend.hpp"
#include "transports/accelerators.hpp"
#include "transports/staged/staged_backend.hpp"
#include "tutti/provider/provider.hpp"

namespace tutti::tools {
namespace {

using State = Availability::State;

struct Cell {
  State state;
  std::string note;
};

void add(std::vector<Availability>& cells, Kind kind, const std::string& target, Cell cpu, Cell cuda) {
  cells.push_back({kind, Device::Kind::cpu, target, cpu.state, std::move(cpu.note)});
  cells.push_back({kind, Device::Kind::cuda, target, cuda.state, std::move(cuda.note)});
}

// Returns what the staged backend and the accelerator report for a call of this kind on `device`.
Cell staged_cell(Kind kind, Device::Kind device, const Settings& settings) {
  const staged::StagedBackend staged({}, {});
  Collective call;
  call.kind = kind;
  if (kind != Kind::barrier) call.in.device.kind = call.out.device.kind = device;  // a barrier has no buffers
  if (const Status able = staged.supports(call, {}); !able.ok())
    return {State::unimplemented, std::string(able.text())};
  if (const std::string why = accelerator(settings).why_not(); !why.empty())
    return {State::unavailable, "no device: " + why};
  return {State::available, "device memory by way of the host, in slices; rules for cpu say who does those"};
}

// Returns the cell for device memory of a backend that works on host memory: staging calls the backend for each slice.
Cell through_staged(const Cell& host, const Cell& staged) {
  if (staged.state == State::unimplemented) return {staged.state, "not on GPU buffers"};
  return {std::max(host.state, staged.state), "on GPU buffers by staged"};
}

// A backend of this installation other than tutti's own plans.
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

void add(std::vector<Availability>& cells, Kind kind, const Foreign& backend, const Cell& staged) {
  const auto& [name, found] = backend;
  if (found.provider == nullptr) {
    const Cell broken{State::unavailable, found.reason};
    return add(cells, kind, name, broken, broken);
  }
  const auto algorithms = found.provider->algorithms(kind);
  if (algorithms.empty()) {
    const Cell lacking{State::unimplemented, name + " has not got it"};
    return add(cells, kind, name, lacking, lacking);
  }
  const Cell own = found.reason.empty() ? Cell{State::available, std::string(found.provider->meaning)}
                                        : Cell{State::unavailable, found.reason};
  const bool comes_with_transport = found.provider->make_backend == nullptr;
  for (const std::string_view algorithm : algorithms) {
    const std::string target = name + (algorithm.empty() ? "" : "/" + std::string(algorithm));
    if (found.provider->collects != Device::Kind::cpu)
      add(cells, kind, target, {State::unimplemented, "on GPU buffers alone"}, own);
    else if (comes_with_transport)
      add(cells, kind, target, own, through_staged(own, staged));
    else
      add(cells, kind, target, own, {State::unimplemented, "not on GPU buffers"});
  }
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
    const Cell staged = staged_cell(kind, Device::Kind::cuda, settings);
    for (const Algorithm* algorithm : catalog()) {
      if (algorithm->kind != kind) continue;
      const Cell own{State::available, std::string(algorithm->idea) + (algorithm->variable ? " (v-form too)" : "")};
      add(cells, kind, std::string(PlannedBackend::own_name) + "/" + std::string(algorithm->name), own,
          through_staged(own, staged));
    }
    add(cells, kind, std::string(staged::StagedBackend::own_name), staged_cell(kind, Device::Kind::cpu, settings),
        staged);
    for (const Foreign& backend : foreign) add(cells, kind, backend, staged);
  }
  return cells;
}

}  // namespace tutti::tools
