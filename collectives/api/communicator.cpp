#include "tutti/communicator.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "collectives/api/communicator_impl.hpp"
#include "collectives/doctor/opinion.hpp"
#include "transports/core/checked.hpp"

namespace tutti {

namespace {

constexpr std::uint64_t world_id = 1;

std::vector<int> world_ranks(const Communicator& of, std::span<const int> ranks) {
  std::vector<int> all;
  all.reserve(ranks.size());
  for (const int one : ranks) all.push_back(of.world_rank(one));
  return all;
}

int place_of(int rank, std::span<const int> ranks) {
  const auto found = std::ranges::find(ranks, rank);
  return found == ranks.end() ? -1 : static_cast<int>(found - ranks.begin());
}

}  // namespace

Communicator Communicator::from_env() { return from_env(Settings::from_environment()); }

Communicator Communicator::connect(const Bootstrap& bootstrap) {
  auto context = Context::make(bootstrap);
  auto selector = std::make_shared<const Selector>(context->settings(), context->tuned(), context->backends());
  Group world{.id = world_id, .rank = context->rank()};
  std::vector<int> all(static_cast<std::size_t>(context->size()));
  std::iota(all.begin(), all.end(), 0);
  world.members = std::move(all);
  auto group = context->add_group(std::move(world), "world");
  auto common = std::make_shared<CommonParts>(std::move(selector));
  Communicator made(std::make_shared<Impl>(std::move(context), std::move(group), std::move(common)));
  made.impl_->make_named_backends(made);
  return made;
}

void Communicator::set_name(std::string_view name) { impl_->shared_state()->record().set_name(name); }
std::string Communicator::doctor(double patience) const {
  const Context& context = impl_->context();
  const Seconds stuck = checked_seconds(Seconds(patience), "doctor: the patience");
  if (!context.recorder())
    throw Error(Code::unsupported, "doctor: this rank's calls are not recorded; unset TUTTI_RECORDER, or set it to on");
  const auto patients =
      doctor::patients_of(context.settings().job, context.recorder()->file(), doctor::Look::at_places);
  return doctor::diagnose(patients, doctor::real_now(), static_cast<doctor::Time>(1e9 * stuck.count())).paragraph();
}

std::string Communicator::name() const { return impl_->state().record().name(); }

int Communicator::rank() const noexcept { return impl_->group().rank; }
int Communicator::size() const noexcept { return impl_->group().size(); }
int Communicator::world_rank(int i) const { return impl_->group().members.at(static_cast<std::size_t>(i)); }
const Settings& Communicator::settings() const noexcept { return impl_->context().settings(); }

// ---- groups, memory and the rest ----------------------------------------------------------------

std::optional<Communicator> Communicator::make_group(std::string_view maker, std::span<const int> ranks, int number) {
  Group group{.id = impl_->next_id(number), .rank = -1};
  group.rank = place_of(rank(), ranks);
  group.members = world_ranks(*this, ranks);
  if (group.rank < 0) return std::nullopt;
  Communicator made(impl_->child(std::move(group), name() + "/" + std::string(maker)));
  made.impl_->make_named_backends(made);
  return made;
}

Communicator Communicator::make_own_group(std::span<const int> ranks, std::string_view name) {
  Group group{.id = 0, .rank = -1};
  group.rank = place_of(rank(), ranks);
  group.members = world_ranks(*this, ranks);
  if (group.rank < 0)
    throw Error(Code::invalid,
                "group: rank " + std::to_string(rank()) + " is not listed; the listed ranks alone make the group");
  group.id = impl_->context().next_group_id(group.members, name);
  return Communicator(impl_->child(std::move(group), std::string(name)));
}

Agreed Communicator::agree(std::uint64_t bits) {
  std::uint64_t id = 0;
  if (auto agreed = impl_->agree(Impl::Purpose::agree, bits, id)) return std::move(*agreed);
  impl_->throw_if_failed();
  throw Error(Code::mismatch,
              "agree: other ranks called shrink() or grow(); all that are left must make the same call");
}

Communicator Communicator::shrink() {
  Group group{.id = 0, .rank = -1};
  std::optional<Agreed> agreed;
  while (!agreed) agreed = impl_->agree(Impl::Purpose::shrink, 0, group.id);  // others may come from another call
  group.rank = place_of(rank(), agreed->members);
  group.members = world_ranks(*this, agreed->members);
  const std::string ending = "/shrink";
  return Communicator(impl_->child(std::move(group), name().ends_with(ending) ? name() : name() + ending));
}

void Communicator::make_named_backends() { impl_->make_named_backends(*this); }

Topology Communicator::topology() const { return impl_->context().topology().of(impl_->group().members); }

Accelerator& Communicator::accelerator() const { return tutti::accelerator(settings()); }

int Communicator::device() const {
  const Context& context = impl_->context();
  return device_of_rank(accelerator(), context.topology().hosts().index_of(context.rank()));
}

void Communicator::use_backend(const std::string& name) {
  if (const std::string reason = impl_->make(name, *this); !reason.empty())
    throw Error(Code::unsupported, "the backend '" + name + "' cannot be used " + reason);
}

std::shared_ptr<void> Communicator::allocate_elements(std::size_t count, std::size_t element_bytes) {
  impl_->context().refuse_in_child();
  if (const auto bytes = checked_product(count, element_bytes)) return impl_->context().wire().allocate(*bytes);
  throw Error(Code::invalid, "allocate: " + std::to_string(count) + " elements of " + std::to_string(element_bytes) +
                                 " bytes are more than an address space holds; ask for less");
}

std::shared_ptr<void> Communicator::register_memory(void* data, std::size_t bytes) {
  impl_->context().refuse_in_child();
  if (data == nullptr || bytes == 0) return nullptr;
  if (!checked_product(bytes, 1))
    throw Error(Code::invalid, "register_memory: " + std::to_string(bytes) +
                                   " bytes are more than an address space holds; give the size of the memory");
  return impl_->context().wire().adopt({data, [](void*) {}}, bytes);
}

std::optional<Arrived> Communicator::probe(int from, int tag) {
  check_message("probe", from == any_rank ? 0 : from, tag, size());
  Context& context = impl_->context();
  std::optional<Unmatched> found;
  const Group& group = impl_->group();
  const Tag messages{group.id, static_cast<std::uint32_t>(tag), point_to_point_lane};
  context.do_holding([&] {
    context.wire().progress();
    // First the posted receives from any rank match: probe() must not report a message that belongs to them.
    context.any_source().progress();
    found = context.wire().arrived(from == any_rank ? any_rank : world_rank(from), messages);
  });
  if (!found) {
    impl_->throw_if_failed();
    return std::nullopt;
  }
  const DType dtype = element_type(Signature{found->call});
  return Arrived{group.rank_of(found->from), tag, found->bytes, found->bytes / size_of(dtype), dtype};
}

void Communicator::control(int to, ConstBytes message) {
  check_message("control", to, 0, size());
  if (message.size() > Context::most_control)
    throw Error(Code::invalid, "control: the message has " + std::to_string(message.size()) + " bytes, and at most " +
                                   std::to_string(Context::most_control) + " go; send() more");
  impl_->throw_if_failed();
  impl_->context().send_control(impl_->state(), world_rank(to), message);
}

void Communicator::on_control(std::function<void(int from, ConstBytes message)> handler) {
  const auto state = impl_->shared_state();
  state->mailbox().set(std::move(handler));
  impl_->context().defer([state] { state->mailbox().run(); });  // for messages that arrived before the handler was set
}

std::shared_ptr<Store> Communicator::store() const { return impl_->store(); }

void Communicator::abort(const std::string& why) noexcept {
  Cause cause;
  cause.code = Code::aborted;
  cause.culprit = cause.reporter = impl_->context().rank();
  cause.group = impl_->group().id;
  cause.say("rank " + std::to_string(cause.culprit) + " called abort: " + why);
  impl_->context().fail(cause);
}

std::vector<std::string> Communicator::routes() const {
  std::vector<std::string> routes;
  for (const int member : impl_->group().members) routes.push_back(impl_->context().routes()[member]);
  return routes;
}

std::string Communicator::explain(const Collective& call) const {
  Collective checked = call;
  check_arguments(checked, impl_->group());
  return impl_->explain(checked);
}

}  // namespace tutti
