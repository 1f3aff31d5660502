// Backend: creating groups, launching calls, and shutdown.
#include "bindings/torch/backend.hpp"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <random>
#include <set>

#include "bindings/torch/callbacks.hpp"
#include "bindings/torch/completer.hpp"
#include "bindings/torch/errors.hpp"
#include "bindings/torch/flight_dump.hpp"
#include "bindings/torch/gil.hpp"
#include "bindings/torch/memory.hpp"
#include "bindings/torch/store.hpp"
#include "tutti/bootstrap.hpp"
#include "tutti/turns.hpp"

namespace tutti::torch_binding {
namespace {

using std::chrono::milliseconds;

/// The live Backends, for leave_all().
std::mutex living_mutex;
std::set<Backend*>& living() {
  static auto* const all = new std::set<Backend*>;
  return *all;
}

std::string random_text() {
  std::random_device device;
  std::string text;
  for (int i = 0; i < 8; ++i) text += std::to_string(device());
  return text;
}

int from_environment(const char* name, int otherwise) {
  const char* const text = std::getenv(name);
  return text != nullptr && *text != '\0' ? std::atoi(text) : otherwise;
}

Seconds seconds(milliseconds length) { return std::chrono::duration_cast<Seconds>(length); }

/// Connects a separate job, whose ranks meet in torch's store. Rank 0 chooses its name and secret.
Communicator connect_world(const Origin& origin, milliseconds timeout) {
  Bootstrap bootstrap;
  bootstrap.rank = origin.rank;
  bootstrap.size = origin.size;
  bootstrap.local_rank = from_environment("LOCAL_RANK", 0);
  bootstrap.local_size = from_environment("LOCAL_WORLD_SIZE", 1);
  bootstrap.launcher = "torch";
  bootstrap.settings = Settings::from_environment();
  bootstrap.settings.timeout = seconds(timeout).count();
  double& patience = bootstrap.settings.connect_timeout;
  patience = std::max(patience, seconds(timeout).count());
  if (origin.rank == 0) warn_of_unknown(bootstrap.settings);
  if (origin.size > 1) {
    // Several groups with the same name may use one store, one after the other. Each group is a job of its own.
    bootstrap.settings.job.clear();
    bootstrap.settings.secret.clear();
    launchers::join_others(bootstrap, adapt(origin.store));
  } else {
    bootstrap.settings.job = random_text();
  }
  return Communicator::connect(bootstrap);
}

std::vector<std::int64_t> all_ranks(int size) {
  std::vector<std::int64_t> ranks(static_cast<std::size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

std::shared_ptr<const void> token() {
  static const auto* const one = new auto(std::make_shared<const int>(0));
  return *one;
}

}  // namespace

Backend::Backend(const Origin& origin, c10::intrusive_ptr<Options> options)
    : c10d::Backend(origin.rank, origin.size),
      options_(std::move(options)),
      is_default_(origin.members.empty()),
      group_(std::make_shared<Group>(options_->backend, origin.id, options_->timeout,
                                     origin.members.empty() ? all_ranks(origin.size) : origin.members)) {
  try {
    connect(origin);
  } catch (const Error& error) {
    if (std::string_view(error.what()).find("torch's store") != std::string_view::npos)
      C10_THROW_ERROR(DistStoreError, std::string("tutti: ") + error.what());
    std::rethrow_exception(translated(error, "making a process group", options_->timeout));
  }
  {
    const std::lock_guard lock(living_mutex);
    living().insert(this);
  }
  init();
}

void Backend::connect(const Origin& origin) {
  std::optional<Communicator> part;
  if (origin.made && !origin.is_world) part = origin.made;
  if (!origin.made && !is_default_) {
    const std::int64_t self = origin.members[static_cast<std::size_t>(origin.rank)];
    part = worlds::group_within(origin.members, self, origin.id);
  }
  if (part) return group_->open(*std::move(part));
  is_world_ = true;
  Communicator world = origin.made ? *origin.made : connect_world(origin, options_->timeout);
  flight_dump::listen(world);
  FlightRecorder::instance().set_rank(static_cast<int>(group_->members()[static_cast<std::size_t>(origin.rank)]));
  group_->open(std::move(world));
  worlds::add(group_);
}

/// Takes over the names that torch has given to the group after it was made: for reports of hangs, and for the flight
/// recorder.
void Backend::learn_names() {
  if (named_.load(std::memory_order_acquire)) return;
  const std::lock_guard lock(mutex_);
  if (named_.load(std::memory_order_relaxed)) return;
  const std::string& name = getGroupUid();
  const std::string desc = getGroupDesc().empty() ? "undefined" : getGroupDesc();
  if (auto communicator = group_->find())
    communicator->set_name(desc != "undefined" ? desc : name.empty() ? group_->name() : name);
  if (FlightRecorder& recorder = FlightRecorder::instance(); recorder.is_on())
    recorded_ = recorder.add({.name = name, .desc = desc, .members = group_->members(), .rank = rank_});
  named_.store(true, std::memory_order_release);
}

Backend::~Backend() {
  {
    const std::lock_guard lock(living_mutex);
    living().erase(this);
  }
  const WithoutGil without;
  leave(seconds(group_->timeout()));
}

void Backend::shutdown() {
  const WithoutGil without;
  leave(seconds(group_->timeout()));
}

void Backend::leave(Seconds patience) {
  if (group_->is_parents() || !group_->find()) return;
  std::vector<c10::intrusive_ptr<Work>> messages;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& one : messages_)
      if (auto work = one.lock()) messages.push_back(std::move(work));
    messages_.clear();
  }
  for (const auto& work : messages) work->cancel();  // no rank will wait for these messages
  messages.clear();
  if (!Completer::instance().drain(*group_, deadline_in(patience))) {
    group_->abort("rank " + std::to_string(rank_) + " has left the process group");
    Completer::instance().drain(*group_, deadline_in(Seconds(1)));
  }
  collectives_.clear();
  group_->close();
}

void Backend::leave_all(Seconds patience) {
  const WithoutGil without;
  {
    const std::lock_guard lock(living_mutex);
    for (Backend* const one : living()) one->leave(patience);
  }
  Completer::instance().close();
}

void Backend::abort() {
  const WithoutGil without;
  group_->abort("rank " + std::to_string(rank_) + " aborted the process group");
  Completer::instance().drain(*group_, deadline_in(Seconds(2)));
}

void Backend::setTimeout(milliseconds limit) {
  group_->set_timeout(limit);
  options_->timeout = limit;
}

c10d::ErrorType Backend::getError() {
  switch (group_->failure()) {
    case Code::ok: return c10d::ErrorType::SUCCESS;
    case Code::timeout: return c10d::ErrorType::TIMEOUT;
    case Code::peer_lost: return c10d::ErrorType::REMOTE_ERROR;
    default: return c10d::ErrorType::COMM_ERROR;
  }
}

CallOptions Backend::call_options(const Request& request, double limit) const {
  CallOptions options;
  options.timeout = limit;
  options.algorithm = options_->algorithm;
  options.keep = token();
  options.label = request.name;
  for (const Tensors* const list : {&request.inputs, &request.outputs})
    for (const at::Tensor& tensor : *list)
      if (tensor.is_cuda() && !options.stream) options.stream = current_stream(tensor.device());
  return options;
}

Communicator Backend::here(const char* call) const {
  try {
    return group_->communicator_here();
  } catch (const Error& error) {
    std::rethrow_exception(translated(error, call, group_->timeout()));
  }
}

void Backend::count_in(const tutti::Work& collective) {
  const std::lock_guard lock(mutex_);
  std::erase_if(collectives_, [](const Launched& one) { return one.work.done(); });
  collectives_.push_back({CallbackQueue::current(), collective});
}

/// The collectives in flight that were launched in the same place as the next one of this thread: outside of callbacks,
/// or by the same CallbackQueue. Their order is the same on all ranks.
std::vector<tutti::Work> Backend::earlier_collectives() {
  std::vector<tutti::Work> found;
  const std::lock_guard lock(mutex_);
  for (const Launched& one : collectives_)
    if (one.by == CallbackQueue::current() && !one.work.done()) found.push_back(one.work);
  return found;
}

/// Launches a collective of one or several calls.
Backend::Made Backend::start(Request request) {
  learn_names();
  Communicator communicator = here(request.name);
  const milliseconds limit = request.timeout == c10d::kUnsetTimeout ? group_->timeout() : request.timeout;
  const CallOptions options = call_options(request, seconds(limit).count());
  const std::vector<Collective> calls = request.calls;
  const char* const name = request.name;
  auto work = c10::make_intrusive<Work>(group_, std::move(request), ++sequence_);
  work->record(recorded_);
  try {
    tutti::Work part = calls.size() == 1 ? communicator.launch(calls.front(), options)
                                         : communicator.launch(std::span(calls), options);
    count_in(part);
    work->follow({std::move(part)}, false);
  } catch (const Error& error) {
    const std::exception_ptr why = translated(error, name, limit);
    work->fail(why);
    std::rethrow_exception(why);
  }
  remember(work);
  return work;
}

/// A barrier completes only after all earlier collectives of this rank.
Backend::Made Backend::barrier(const c10d::BarrierOptions& options) {
  learn_names();
  Communicator communicator = here("barrier");
  Request request{.type = c10d::OpType::BARRIER, .name = "barrier", .inputs = {}, .timeout = options.timeout};
  const milliseconds limit = options.timeout == c10d::kUnsetTimeout ? group_->timeout() : options.timeout;
  const CallOptions call = call_options(request, seconds(limit).count());
  auto work = c10::make_intrusive<Work>(group_, std::move(request), ++sequence_);
  work->record(recorded_);
  std::vector<tutti::Work> parts = earlier_collectives();
  parts.push_back(communicator.barrier(call));
  work->follow(std::move(parts), false);
  remember(work);
  return work;
}

void Backend::startCoalescing() {
  const std::lock_guard lock(mutex_);
  coalescing_.emplace();
}

void Backend::remember(const c10::intrusive_ptr<Work>& work) {
  const std::lock_guard lock(mutex_);
  if (coalescing_) coalescing_->push_back(work);
}

Backend::Made Backend::endCoalescing() {
  std::vector<c10::intrusive_ptr<Work>> works;
  {
    const std::lock_guard lock(mutex_);
    if (coalescing_) works = *std::exchange(coalescing_, std::nullopt);
  }
  Request request{.type = c10d::OpType::COALESCED, .name = "coalesced", .inputs = {}};
  request.last = [works] {
    for (const auto& work : works) work->wait();
  };
  request.ordered = std::ranges::all_of(works, [](const auto& work) { return work->is_ordered(); });
  std::vector<tutti::Work> parts;
  for (const auto& work : works) parts.insert(parts.end(), work->parts().begin(), work->parts().end());
  auto all = c10::make_intrusive<Work>(group_, std::move(request), sequence_);
  all->follow(std::move(parts), true);
  return all;
}

c10::intrusive_ptr<c10d::Backend> Backend::split(const c10::intrusive_ptr<c10d::Store>& store,
                                                 const std::vector<int>& ranks,
                                                 const c10::intrusive_ptr<c10d::Backend::Options>& options) {
  const auto self = std::ranges::find(ranks, rank_);
  if (self == ranks.end()) return nullptr;
  auto own = c10::make_intrusive<Options>(group_->name(), options->timeout);
  own->algorithm = options_->algorithm;
  own->group_name = options->group_name;
  Origin origin{.store = store,
                .rank = static_cast<int>(self - ranks.begin()),
                .size = static_cast<int>(ranks.size()),
                .id = options->group_name};
  for (const int rank : ranks) {
    TORCH_CHECK(rank >= 0 && rank < size_, "tutti: split: ", rank, " is not a rank of this group of ", size_);
    origin.members.push_back(group_->members()[static_cast<std::size_t>(rank)]);
    own->global_ranks_in_group.push_back(static_cast<std::uint64_t>(origin.members.back()));
  }
  return c10::make_intrusive<Backend>(origin, std::move(own));
}

c10::intrusive_ptr<c10d::Backend> Backend::merge(const c10::intrusive_ptr<c10d::Store>& store,
                                                 const c10::intrusive_ptr<c10d::Backend::Options>& options,
                                                 const int& rank, const int& size) {
  auto own = c10::make_intrusive<Options>(group_->name(), options ? options->timeout : group_->timeout());
  return c10::make_intrusive<Backend>(Origin{.store = store, .rank = rank, .size = size}, std::move(own));
}

}  // namespace tutti::torch_binding
