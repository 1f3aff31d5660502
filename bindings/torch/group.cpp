// Group: the state that a process group's Backend and its Works share.
#include "bindings/torch/group.hpp"

#include <algorithm>
#include <numeric>

#include "bindings/torch/callbacks.hpp"
#include "bindings/torch/errors.hpp"
#include "bindings/torch/flight_dump.hpp"

namespace tutti::torch_binding {

void Group::open(Communicator communicator) {
  const std::lock_guard lock(mutex_);
  communicator_ = std::move(communicator);
}

Communicator Group::communicator() const {
  if (auto found = find()) return *std::move(found);
  std::rethrow_exception(backend_error("tutti: the process group has been shut down"));
}

std::optional<Communicator> Group::find() const {
  const std::lock_guard lock(mutex_);
  return communicator_;
}

void Group::close() {
  std::optional<Communicator> last;
  std::map<std::string, std::shared_ptr<OfCallbacks>> others;
  const std::lock_guard lock(mutex_);
  std::swap(last, communicator_);
  std::swap(others, of_callbacks_);
}

Communicator Group::communicator_here() {
  Communicator base = communicator();
  const CallbackQueue* const queue = CallbackQueue::current();
  if (queue == nullptr || base.size() == 1) return base;
  const std::string name = queue->name_within(members_);
  std::shared_ptr<OfCallbacks> found;
  {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<OfCallbacks>& entry = of_callbacks_[name];
    if (entry == nullptr) entry = std::make_shared<OfCallbacks>();
    found = entry;
  }
  const std::lock_guard making(found->making);
  if (!found->communicator) {
    std::vector<int> all(static_cast<std::size_t>(base.size()));
    std::iota(all.begin(), all.end(), 0);
    Communicator made = base.group(all, name);
    made.set_name(base.name() + " (callbacks)");
    const std::lock_guard lock(mutex_);
    if (!communicator_) return made;  // closed meanwhile
    found->communicator = std::move(made);
  }
  return *found->communicator;
}

std::shared_ptr<CallbackQueue> Group::callback_queue() {
  CallbackQueue* const from = CallbackQueue::current();
  if (from != nullptr && from->is_deepest()) return from->shared_from_this();
  const std::lock_guard lock(mutex_);
  std::shared_ptr<CallbackQueue>& queue =
      queues_[from == nullptr ? std::weak_ptr<CallbackQueue>() : from->weak_from_this()];
  if (queue == nullptr) {
    std::vector<CallbackQueue::Source> sources;
    if (from != nullptr) sources = from->sources();
    sources.push_back({id_, members_});
    queue = std::make_shared<CallbackQueue>(std::move(sources));
  }
  return queue;
}

void Group::abort(const std::string& why) {
  std::vector<Communicator> all;
  {
    const std::lock_guard lock(mutex_);
    if (communicator_) all.push_back(*communicator_);
    for (const auto& [name, one] : of_callbacks_)
      if (one->communicator) all.push_back(*one->communicator);
  }
  for (Communicator& one : all) one.abort(why);
}

void Group::note(Code code) noexcept {
  Code none = Code::ok;
  if (failure_.compare_exchange_strong(none, code)) flight_dump::group_failed(code);
}

namespace worlds {
namespace {

std::mutex mutex;

std::vector<std::weak_ptr<Group>>& list() {
  static auto* const all = new std::vector<std::weak_ptr<Group>>;  // never destroyed: threads may outlive main()
  return *all;
}

/// The ranks of `members` in the group `world`; empty if one is missing.
std::vector<int> places(const Group& world, std::span<const std::int64_t> members) {
  std::vector<int> found;
  for (const std::int64_t member : members) {
    const auto at = std::ranges::find(world.members(), member);
    if (at == world.members().end()) return {};
    found.push_back(static_cast<int>(at - world.members().begin()));
  }
  return found;
}

}  // namespace

void add(const std::shared_ptr<Group>& world) {
  const std::lock_guard lock(mutex);
  std::erase_if(list(), [](const auto& one) { return one.expired(); });
  list().push_back(world);
}

std::optional<Communicator> group_within(std::span<const std::int64_t> members, std::int64_t self,
                                         const std::string& name) {
  std::optional<Communicator> world;
  std::vector<int> ranks;
  {
    const std::lock_guard lock(mutex);
    for (const auto& one : list()) {
      const auto group = one.lock();
      if (group == nullptr) continue;
      ranks = places(*group, members);
      if (ranks.empty()) continue;
      world = group->find();
      if (world && group->members()[static_cast<std::size_t>(world->rank())] == self) break;
      world.reset();
    }
  }
  if (!world) return std::nullopt;
  return world->group(ranks, name);
}

void tell_all(ConstBytes message) {
  std::vector<Communicator> all;
  {
    const std::lock_guard lock(mutex);
    for (const auto& one : list())
      if (const auto group = one.lock())
        if (auto world = group->find()) all.push_back(*std::move(world));
  }
  for (Communicator& world : all)
    for (int rank = 0; rank < world.size(); ++rank) {
      if (rank == world.rank()) continue;
      try {
        world.control(rank, message);
      } catch (const Error&) {  // the rank is lost
      }
    }
}

}  // namespace worlds
}  // namespace tutti::torch_binding
