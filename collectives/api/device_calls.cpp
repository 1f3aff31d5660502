#include "collectives/api/device_calls.hpp"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "collectives/route/host_backend.hpp"
#include "collectives/route/rules.hpp"
#include "transports/accelerators.hpp"

namespace tutti {
namespace {

// The functions by which the staging backend uses the host's collectives and memory. The context outlives them.
staged::Host staging_host(Context& context, const Group& group, std::shared_ptr<const Selector> selector) {
  return {[&context]() -> Accelerator& { return accelerator(context.settings()); },
          [&context, group, selector = std::move(selector)] {
            return std::make_unique<HostBackend>(context.wire(), group, context.settings(), selector);
          },
          [&context](std::size_t bytes) { return context.wire().allocate(bytes); },
          static_cast<std::size_t>(context.settings().stage_bytes)};
}

}  // namespace

void end_where_broken(Context& context, const Group& group, const Error& error) {
  if (error.code() != Code::internal) return;
  Cause cause;
  cause.code = Code::internal;
  cause.culprit = cause.reporter = context.rank();
  cause.group = group.id;
  cause.say("rank " + std::to_string(cause.culprit) + ": " + error.what());
  context.fail(cause);
}

DeviceCalls::DeviceCalls(std::shared_ptr<Context> context, std::shared_ptr<GroupState> group, Choices& choices)
    : context_(std::move(context)),
      group_(std::move(group)),
      choices_(choices),
      staged_(std::make_shared<staged::StagedBackend>(group_->group(),
                                                      staging_host(*context_, group_->group(), choices.selector()))) {}

void DeviceCalls::end() noexcept {
  DeviceBackends::leave(std::move(backends_));
  staged_.reset();
  exchanges_.reset();
}

// ---- choice of a backend --------------------------------------------------------------------------

// The names in the setting `device_backends` that are installed on rank 0, up to the first backend that this
// communicator has already. Empty for a group of one rank and for a failed communicator.
std::vector<std::string> DeviceCalls::worth_trying() const {
  std::vector<std::string> names;
  if (group_->group().size() == 1 || group_->poisoned()) return names;
  // The setting `net` shapes tutti's own links; device libraries would send over other links.
  if (!context_->settings().net.empty()) return names;
  const auto& installed = choices_.selector()->known_backends();
  for (const std::string_view name : rules::words(context_->settings().device_backends, ',')) {
    if (choices_.has(name)) break;
    if (std::ranges::find(installed, name) != installed.end()) names.emplace_back(name);
  }
  return names;
}

void DeviceCalls::find_out(const std::shared_ptr<DeviceCalls>& self, DeviceBackends::Talk talk) {
  auto backends = std::make_unique<DeviceBackends>(context_, group_->group(), std::move(talk));
  backends->begin([weak = std::weak_ptr(self)](DeviceBackends::Outcome outcome) {
    if (const auto alive = weak.lock()) alive->found(std::move(outcome));
  });
  backends_ = std::move(backends);
}

void DeviceCalls::found(DeviceBackends::Outcome outcome) {
  if (outcome.backend) {
    context_->add_backend(*group_, outcome.backend);
    choices_.add(std::move(outcome.backend));
  }
  failure_ = outcome.failure;
  known_.store(true, std::memory_order_release);
  CollectiveOperation::start_those_ready(*group_);
}

const Route* DeviceCalls::choose(const Collective& call, Signature summary, const std::string& wanted) {
  if (known_.load(std::memory_order_acquire)) return &driven(choices_.choose(call, summary, wanted));
  if (!wanted.empty()) parse_target(wanted, call.kind, choices_.selector()->known_backends());
  return nullptr;
}

const Route* DeviceCalls::route(const Collective& call, const std::string& wanted) {
  if (!known_.load(std::memory_order_relaxed)) return nullptr;
  if (!failure_.ok()) throw Error(failure_.cause(), std::string(failure_.text()));
  const Group& group = group_->group();
  return &driven(choices_.choose(call, signature(call, group.rank, group.size()), wanted));
}

const Route& DeviceCalls::driven(const Route& route) {
  if (route.backend == staged_.get() && !staged_driven_.exchange(true)) context_->add_backend(*group_, staged_);
  return route;
}

void DeviceCalls::wait() {
  if (backends_) backends_->wait();
}

staged::Exchanges& DeviceCalls::exchanges(Accelerator& gpu) {
  std::call_once(exchanges_made_, [&] {
    exchanges_ = std::make_shared<staged::Exchanges>(group_->group(), context_->wire(), gpu,
                                                     static_cast<std::size_t>(context_->settings().stage_bytes));
    context_->add_engine(exchanges_);
  });
  return *exchanges_;
}

}  // namespace tutti
