// Implementation of Communicator: the choice of a backend for each call, and the launch.
#pragma once

#include <algorithm>
#include <atomic>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "collectives/api/arguments.hpp"
#include "collectives/api/backends.hpp"
#include "collectives/api/device_calls.hpp"
#include "collectives/plan/planned_backend.hpp"
#include "collectives/route/choices.hpp"
#include "collectives/route/rules.hpp"
#include "collectives/route/selector.hpp"
#include "collectives/runtime/batch.hpp"
#include "collectives/runtime/context.hpp"
#include "collectives/runtime/operation.hpp"
#include "collectives/runtime/point_to_point.hpp"
#include "collectives/runtime/pool.hpp"
#include "transports/accelerators.hpp"
#include "tutti/bootstrap.hpp"
#include "tutti/communicator.hpp"
#include "tutti/log.hpp"
#include "tutti/provider/provider.hpp"
#include "tutti/store.hpp"

namespace tutti {

/// The objects that all communicators of one context share.
struct CommonParts {
  explicit CommonParts(std::shared_ptr<const Selector> rules) : selector(std::move(rules)) {}
  const std::shared_ptr<const Selector> selector;
  Pool<CollectiveOperation> collectives;
  Pool<PointToPoint> exchanges;
  Pool<Batch> batches;
};

class Communicator::Impl {
 public:
  Impl(std::shared_ptr<Context> context, std::shared_ptr<GroupState> group, std::shared_ptr<CommonParts> common)
      : context_(std::move(context)),
        group_(std::move(group)),
        common_(std::move(common)),
        choices_(common_->selector, this->group(), context_->settings().explain == "on" && context_->rank() == 0,
                 [group = group_](std::string_view route) { return group->record().text(route); }),
        allowed_(duration_of(Seconds(context_->settings().timeout))) {
    choices_.add(std::make_shared<PlannedBackend>(context_->wire(), this->group(), context_->settings()));
    if (std::shared_ptr<Backend> own = context_->wire().make_backend(this->group())) {
      context_->notify(*group_, own);
      choices_.add(std::move(own));
    }
    choices_.add(devices_.staging());
  }
  ~Impl() {
    group_->mailbox().set({});
    context_->forget_group(group().id);
    Backends leaving = choices_.take_backends();
    devices_.end();
    context_->drop_engines({std::make_move_iterator(leaving.begin()), std::make_move_iterator(leaving.end())});
  }

  const Group& group() const noexcept { return group_->group(); }
  Context& context() const noexcept { return *context_; }
  const GroupState& state() const noexcept { return *group_; }
  const std::shared_ptr<GroupState>& shared_state() const noexcept { return group_; }

  std::shared_ptr<Store> store() {
    std::call_once(store_made_, [&] {
      const std::shared_ptr<Store>& jobs = context_->store();
      store_ = make_prefix_store(jobs ? jobs : make_local_store(), "user/" + std::to_string(group().id));
    });
    return store_;
  }

  /// `is_value`: the call's operand is one scalar, and the operation keeps its own copy of it. `self` points to this
  /// object.
  Work launch(const std::shared_ptr<Impl>& self, Collective& call, const CallOptions& options, bool is_value = false) {
    context_->refuse_in_child();
    check_arguments(call, group());
    if (call.kind == Kind::send) return launched(exchange(self, call, options));
    const Chosen chosen = choose(self, call, options);
    const CollectiveOperation::Parts parts = parts_of(call, chosen, options);
    if (chosen.gpu == nullptr && !is_value && !options.keep && !context_->verifies_each_call()) {
      std::optional<Work> work;
      context_->launch_now(
          [&] { return !group_->poisoned() && group_->gap().ok() && start_at_once(self, parts, work); });
      if (work) return std::move(*work);
    }
    CollectiveOperation& operation = collective(self, parts, chosen.gpu, options);
    if (is_value) operation.keep_value();
    return launched(operation);
  }

  Work launch_all(const std::shared_ptr<Impl>& self, std::vector<Collective> calls, const CallOptions& options) {
    context_->refuse_in_child();
    for (Collective& call : calls) check_arguments(call, group());
    if (calls.empty()) return {};
    Batch& batch = *spare_batches_.take();
    batch.prepare(home(self).keeper, spare_batches_, group().id, options.keep != nullptr);
    Work work(batch);
    try {
      prepare_all(self, calls, options, batch);
    } catch (...) {  // dropping `work` ends the calls that were prepared
      if (batch.is_empty())
        batch.give_up();
      else
        launch(batch);
      throw;
    }
    launch(batch);
    return work;
  }

  std::string explain(const Collective& call) const { return choices_.explain(call); }

  void throw_if_failed() const {
    if (const Status why = group_->poison(); !why.ok()) throw Error(why.cause(), std::string(why.text()));
  }

  std::shared_ptr<Impl> child(Group group, std::string name) const {
    return std::make_shared<Impl>(context_, context_->add_group(std::move(group), std::move(name)), common_);
  }

  /// Creates the backends that the rules name for this communicator. Collective.
  void make_named_backends(Communicator& self) {
    const Selector& selector = *choices_.selector();
    for (const auto& [name, insisted, by_user] : selector.named(group().size(), group().hosts())) {
      const std::string reason = make(name, self);
      if (reason.empty()) continue;
      const std::string why = "the backend '" + name + "' cannot be used " + reason;
      if (insisted) throw Error(Code::unsupported, why);
      const bool warns = by_user && group().rank == 0 && selector.is_first_to_tell(name);
      log(warns ? LogLevel::warn : LogLevel::info, "rules that name " + name + " are passed over: " + why,
          context_->rank());
    }
  }

  /// Creates a backend by name. Returns an empty string, or the reason why it cannot be created. Collective; blocks.
  std::string make(const std::string& name, Communicator& self) {
    devices_.wait();  // another thread may be creating a backend for device memory, possibly this one
    if (choices_.has(name)) return {};
    MadeBackend made = make_backend({name, ++attempts_}, self, *context_, group());
    if (!made.backend) return made.reason;
    context_->add_backend(*group_, made.backend);
    choices_.add(std::move(made.backend));
    return {};
  }

  // The functions that agree. Ranks that are in different ones must not take one for the other.
  enum class Purpose : std::uint32_t { agree = 1, shrink = 2, grow = 4 };

  // Returns what the ranks that are left agree on and, in `id`, the id of a group of them. It is equal on all of them,
  // however many groups each has made. Nullopt if other ranks agree for another purpose.
  std::optional<Agreed> agree(Purpose purpose, std::uint64_t bits, std::uint64_t& id) {
    std::uint32_t number = 0;
    const auto outcome = context_->agree(*group_, {bits, static_cast<std::uint32_t>(purpose)},
                                         Seconds(context_->settings().timeout), number);
    id = id_of(std::uint64_t{1} << 63 | number, 0);
    if (outcome.value.purposes == 0) return std::nullopt;
    Agreed agreed{outcome.value.bits, {}};
    for (int i = 0; i < group().size(); ++i)
      if (!std::ranges::binary_search(outcome.lost, group().members[static_cast<std::size_t>(i)]))
        agreed.members.push_back(i);
    return agreed;
  }

  // The id of a new group: equal on all its ranks, since all ranks make groups in the same order.
  std::uint64_t next_id(int number) { return id_of(++splits_, number); }

 private:
  // The choice for a call, made before its operation is prepared. This code is on the critical path of a launch.
  struct Chosen {
    Accelerator* gpu = nullptr;
    const Route* route = nullptr;  // null: a call on device memory while the device backends are still negotiated
    Signature summary;
  };
  [[gnu::always_inline]] Chosen choose(const std::shared_ptr<Impl>& self, const Collective& call,
                                       const CallOptions& options) {
    const Signature summary = signature(call, group().rank, group().size());
    Accelerator* const gpu = gpu_of(call, context_->settings());
    return {gpu,
            gpu != nullptr ? choose_for_device(self, call, summary, options.algorithm)
                           : &choices_.choose(call, summary, options.algorithm),
            summary};
  }
  [[gnu::always_inline]] CollectiveOperation::Parts parts_of(Collective& call, const Chosen& chosen,
                                                             const CallOptions& options) {
    return {.call = call,
            .route = chosen.route,
            .summary = context_->checks_messages() ? chosen.summary : Signature(),
            .recorded = chosen.summary,
            .allowed = allowed(options),
            .on_device = chosen.gpu != nullptr,
            .router = &devices_,
            .wanted = options.algorithm,
            .label = options.label};
  }

  // Starts a call before its operation object is prepared. If the call completes within its backend's start(), only its
  // sequence number is used up: its Work is `ended_`, and the next call uses the object. For the holder of the progress
  // token.
  bool start_at_once(const std::shared_ptr<Impl>& self, const CollectiveOperation::Parts& parts,
                     std::optional<Work>& work) {
    if (!spare_) spare_.reset(spare_collectives_.take());  // may throw, so before the start
    const CollectiveOperation::Begun begun = spare_->start_unprepared(*group_, parts);
    if (begun.is_over) {
      work = ended_;
      return false;
    }
    CollectiveOperation& operation = *spare_.release();
    const bool moves = operation.carry_on(home(self), spare_collectives_, parts, begun);
    work.emplace(operation);
    return moves;
  }

  template <class Call>
  Work launched(Call& operation) {
    context_->launch(operation);
    return Work(operation);
  }
  void launch(Batch& batch) {
    batch.follow();
    context_->launch(batch);
  }

  // Chooses a backend for all calls before the first one is prepared, so that an invalid call starts nothing.
  void prepare_all(const std::shared_ptr<Impl>& self, std::span<Collective> calls, const CallOptions& options,
                   Batch& batch) {
    std::vector<std::pair<Collective*, Chosen>> all;
    for (std::size_t next = 0; next < calls.size();) {
      const std::size_t n = packed_together(calls.subspan(next), group().size(), context_->settings().lane_bytes);
      Collective& call = n == 1 ? calls[next] : batch.pack(calls.subspan(next, n), group());
      all.emplace_back(&call, call.kind == Kind::send ? Chosen() : choose(self, call, options));
      next += n;
    }
    for (auto& [call, chosen] : all) {
      if (call->kind == Kind::send)
        batch.add(exchange(self, *call, options));
      else
        batch.add(collective(self, parts_of(*call, chosen, options), chosen.gpu, options));
    }
  }

  const Route* choose_for_device(const std::shared_ptr<Impl>& self, const Collective& call, Signature summary,
                                 const std::string& wanted) {
    const auto aside = [&](std::uint64_t id) {
      return Communicator(child({id, group().rank, group().members}, group_->record().name() + "/devices"));
    };
    devices_.prepare({self, &devices_}, id_of(0, 0), aside);
    return devices_.choose(call, summary, wanted);
  }

  CollectiveOperation& collective(const std::shared_ptr<Impl>& self, const CollectiveOperation::Parts& parts,
                                  Accelerator* gpu, const CallOptions& options) {
    CollectiveOperation& operation = *spare_collectives_.take();
    if (gpu != nullptr) come_after(operation, spare_collectives_, *gpu, parts.call, options);
    operation.prepare(home(self), spare_collectives_, parts);
    if (options.keep) operation.keep(options.keep);
    return operation;
  }

  PointToPoint& exchange(const std::shared_ptr<Impl>& self, const Collective& call, const CallOptions& options) {
    Accelerator* const gpu = gpu_of(call, context_->settings());
    staged::Exchanges* const exchanges = gpu != nullptr ? &devices_.exchanges(*gpu) : nullptr;
    PointToPoint& operation = *spare_exchanges_.take();
    if (gpu != nullptr) come_after(operation, spare_exchanges_, *gpu, call, options);
    operation.prepare(home(self), spare_exchanges_, {call, allowed(options), exchanges, options.label});
    if (options.keep) operation.keep(options.keep);
    return operation;
  }

  // Orders the operation after the work on the call's stream. If the device has failed permanently (for example by an
  // illegal address), fails the communicator on all ranks. Throws Error.
  template <class Call>
  void come_after(Call& operation, Pool<Call>& spare, Accelerator& gpu, const Collective& call,
                  const CallOptions& options) {
    try {
      operation.come_after(gpu, options.stream.value_or(Stream{nullptr, device_of(call).index}));
    } catch (const Error& error) {
      spare.give(&operation);
      end_where_broken(*context_, group(), error);
      throw;
    }
  }

  std::uint64_t id_of(std::uint64_t split, int number) const noexcept {
    std::uint64_t id = group().id * 0x9e3779b97f4a7c15ull + split;
    id = (id ^ (id >> 31)) * 0xbf58476d1ce4e5b9ull + static_cast<std::uint64_t>(number);
    id = (id ^ (id >> 29)) * 0x94d049bb133111ebull;
    return (id ^ (id >> 32)) | 1u << 1;  // not 0 (no group) and not 1 (the world)
  }
  Home home(const std::shared_ptr<Impl>& self) const {
    return {std::shared_ptr<Driver>(self, context_.get()), *context_, *group_};
  }
  Clock::duration allowed(const CallOptions& options) const {
    if (!options.timeout) return allowed_;
    if (*options.timeout > 0) return duration_of(Seconds(*options.timeout));
    throw Error(Code::invalid, "the call's timeout is " + std::to_string(*options.timeout) +
                                   "; give more than 0 seconds, or infinity");
  }

  const std::shared_ptr<Context> context_;
  const std::shared_ptr<GroupState> group_;
  const std::shared_ptr<CommonParts> common_;
  Choices choices_;
  const Clock::duration allowed_;
  DeviceCalls devices_{context_, group_, choices_};
  Pool<CollectiveOperation>& spare_collectives_ = common_->collectives;
  Pool<PointToPoint>& spare_exchanges_ = common_->exchanges;
  Pool<Batch>& spare_batches_ = common_->batches;
  std::once_flag store_made_;
  std::shared_ptr<Store> store_;
  const Work ended_ = WorkState::ended(context_);
  std::unique_ptr<CollectiveOperation> spare_;  // for start_at_once(); needs the progress token
  int attempts_ = 0;                            // attempts to make a backend so far; equal on all ranks
  std::atomic<std::uint64_t> splits_{0};
};

}  // namespace tutti
