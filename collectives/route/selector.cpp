#include "collectives/route/selector.hpp"

#include <algorithm>

#include "collectives/plan/algorithm.hpp"
#include "collectives/plan/planned_backend.hpp"
#include "collectives/route/rules.hpp"
#include "transports/core/layout.hpp"
#include "tutti/log.hpp"

namespace tutti {
namespace {

// Between hosts, and within a host without shared memory, the algorithm with the least cost is chosen (see
// collectives/model). For v-forms, whose bytes not all ranks know, it is the one that sends the fewest bytes across
// hosts. Within a host with shared memory the thresholds below hold. They were measured on two shared cores; `tutti
// tune` measures other machines.
constexpr std::string_view built_in =
    "*: .. hosts 2..=planned;"
    "allgather: .. hosts 2..=hierarchical; reduce_scatter: .. hosts 2..=hierarchical;"
    "*: .. hosts ..1=shm;"
    "*: .. on cuda=nccl, .. hosts ..1 on cuda=cudaipc, .. on cuda=staged;"
    "allreduce: ..16K=recursive_doubling, .. ranks ..2=ring, ..256K=halving_doubling, ..=ring;"
    "reduce: ..64K=binomial, ..=chain; broadcast: ..64K=binomial, ..=chain;"
    "allgather: ..2K=bruck, ..=ring; reduce_scatter: ..=ring;"
    "gather: ..16K=binomial, ..=linear; scatter: ..16K=binomial, ..=linear;"
    "alltoall: ..=pairwise; barrier: ..=dissemination";

using rules::staged;

constexpr std::string_view from_select = "TUTTI_SELECT", from_backend = "TUTTI_BACKEND";

Backend* find(const Backends& backends, std::string_view name) noexcept {
  for (const auto& backend : backends)
    if (backend->name() == name) return backend.get();
  return nullptr;
}

// True if the target names the built-in plans and no algorithm. Then first_plan() chooses the algorithm.
bool is_plain_planned(const Target& target) noexcept {
  return target.backend == PlannedBackend::own_name && target.algorithm.empty();
}

std::string full_name(std::string_view backend, std::string_view algorithm) {
  return std::string(backend) + (algorithm.empty() ? "" : "/" + std::string(algorithm));
}

}  // namespace

bool Rule::matches(const Facts& facts) const noexcept {
  return (!kind || *kind == facts.kind) && bytes.has(facts.bytes) && ranks.has(static_cast<std::size_t>(facts.size)) &&
         hosts.has(static_cast<std::size_t>(facts.hosts)) && (!device || *device == facts.device);
}

Selector::Selector(const Settings& settings, std::string_view tuned, std::vector<std::string> backends)
    : known_(std::move(backends)) {
  known_.emplace_back(staged);
  const Known known{known_, settings};
  const auto add = [this](std::vector<Rule> rules) { std::ranges::move(rules, std::back_inserter(rules_)); };
  add(parse_rules(settings.select, from_select, known));
  for (const std::string_view name : rules::words(settings.backend, ',')) {
    Rule rule;
    rule.target = parse_target(name, std::nullopt, known_);
    rules::check_target(std::nullopt, rule.target, settings);
    rule.source = from_backend;
    rules_.push_back(std::move(rule));
  }
  const auto unread = [](int line, std::string_view why) {
    log(LogLevel::info, "tuned, line " + std::to_string(line) + ": " + std::string(why));
  };
  add(rules::parse_leniently(tuned, "tuned", known, unread));
  built_in_ = rules_.size();
  std::vector<std::string> built_in_backends = known_;
  for (const char* const name : {"shm", "nccl", "cudaipc"}) built_in_backends.emplace_back(name);
  add(parse_rules(built_in, rules::built_in_source, {built_in_backends, settings}));
  limits_ = model::limits_of(settings);
  host_uses_network_ = std::ranges::none_of(rules::words(settings.transport, ','), rules::stays_on_a_host);
  network_ = rules::network_of(settings, tuned);
  network_of_host_ = rules::network_of(settings, tuned, model::parse_network("loopback"));
}

std::vector<Selector::Named> Selector::named(int size, int hosts) const {
  std::vector<Named> names;
  for (const Rule& rule : std::span(rules_).first(built_in_)) {
    const std::string& name = rule.target.backend;
    if (name == PlannedBackend::own_name || name == staged || !rule.ranks.has(static_cast<std::size_t>(size)) ||
        !rule.hosts.has(static_cast<std::size_t>(hosts)))
      continue;
    auto there = std::ranges::find(names, name, &Named::backend);
    if (there == names.end()) there = names.insert(there, Named{name});
    there->insisted |= rule.source == from_backend;
    there->by_user |= rule.source == from_select;
  }
  return names;
}

bool Selector::is_first_to_tell(const std::string& backend) const {
  const std::lock_guard lock(mutex_);
  return told_.insert(backend).second;
}

Choice Selector::first_match(const Collective& call, const Facts& facts, const Backends& backends) const {
  for (const Rule& rule : rules_) {
    if (!rule.matches(facts)) continue;
    Backend* const backend = find(backends, rule.target.backend);
    if (backend == nullptr || !backend->supports(call, rule.target.algorithm).ok()) continue;
    if (is_plain_planned(rule.target)) return first_plan(call, facts, backends, &rule);
    if (rule.source == rules::built_in_source && rule.target.backend == PlannedBackend::own_name)
      return first_plan(call, facts, backends, nullptr);
    return named(backend, rule.target.algorithm, &rule, call, facts);
  }
  for (const auto& backend : backends)
    if (backend->supports(call, {}).ok()) return {backend.get(), {}, nullptr};
  return {};
}

namespace {

Shape shape_of(const Collective& call, const Hosts& hosts) {
  const int size = static_cast<int>(hosts.host().size());
  return {.size = size, .count = block_count(call, size), .root = call.root, .hosts = &hosts};
}

}  // namespace

const model::Network& Selector::network_of(const PlannedBackend& plans) const noexcept {
  return plans.hosts().count() == 1 ? network_of_host_ : network_;
}

// Within a host, sending bytes takes CPU time and uses no link, so pipelining short parts of a buffer gains nothing.
model::Limits Selector::limits_of(const PlannedBackend& plans) const noexcept {
  model::Limits limits = limits_;
  if (plans.hosts().count() == 1) limits.least = limits.lane_bytes;
  return limits;
}

// The choice of an algorithm that a rule or the caller names. For a built-in plan over a network, also chooses the size
// of the pieces with the least cost.
Choice Selector::named(Backend* backend, std::string_view algorithm, const Rule* rule, const Collective& call,
                       const Facts& facts) const {
  Choice choice{backend, algorithm, rule};
  if (call.variable || backend->name() != PlannedBackend::own_name || !uses_network(facts)) return choice;
  const Algorithm* const plan = find_algorithm(call.kind, algorithm);
  if (plan == nullptr || plan->expense == nullptr) return choice;
  const auto& plans = static_cast<const PlannedBackend&>(*backend);
  const Shape shape = shape_of(call, plans.hosts());
  choice.piece = model::best_piece(*plan, shape, size_of(common_dtype(call)), network_of(plans), limits_of(plans));
  return choice;
}

// The algorithms that support the call, in ascending order of cost. None for v-forms, because not all ranks know their
// bytes.
std::vector<model::Candidate> Selector::by_cost(const Collective& call, const PlannedBackend& plans) const {
  if (call.variable) return {};
  return model::rank_algorithms(call.kind, shape_of(call, plans.hosts()), size_of(common_dtype(call)),
                                network_of(plans), limits_of(plans));
}

// Over a network the built-in plan with the least cost, otherwise the plan that the built-in rules select. `by` is the
// rule that is reported for a choice by cost, or null.
Choice Selector::first_plan(const Collective& call, const Facts& facts, const Backends& backends,
                            const Rule* by) const {
  Backend* const plans = find(backends, PlannedBackend::own_name);
  if (uses_network(facts))
    if (const auto ranked = by_cost(call, static_cast<const PlannedBackend&>(*plans)); !ranked.empty())
      return {plans, ranked.front().algorithm->name, by, ranked.front().piece, true};
  for (const Rule& rule : std::span(rules_).subspan(built_in_))
    if (rule.target.backend == PlannedBackend::own_name && !is_plain_planned(rule.target) && rule.matches(facts) &&
        plans->supports(call, rule.target.algorithm).ok())
      return {plans, rule.target.algorithm, &rule};
  return {plans, {}, nullptr};
}

Choice Selector::choose(const Collective& call, const Facts& facts, const Backends& backends) const {
  return first_match(call, facts, backends);
}

Choice Selector::require(std::string_view wanted, const Collective& call, const Facts& facts,
                         const Backends& backends) const {
  const Target target = parse_target(wanted, call.kind, known_);
  Backend* const backend = find(backends, target.backend);
  if (backend == nullptr)
    throw Error(Code::invalid, "the backend '" + target.backend +
                                   "' was not made for this communicator; name it in TUTTI_BACKEND or in a rule, or "
                                   "call use_backend(\"" +
                                   target.backend + "\") on all its ranks first");
  if (const Status able = backend->supports(call, target.algorithm); !able.ok())
    throw Error(able.cause(), std::string(able.text()));
  if (is_plain_planned(target)) return first_plan(call, facts, backends, nullptr);
  // A view of the algorithm's name in `wanted`, because `target` is destroyed at the end of this function.
  const std::string_view word = rules::trim(wanted);
  const auto algorithm = target.algorithm.empty() ? std::string_view() : rules::trim(word.substr(word.find('/') + 1));
  return named(backend, algorithm, nullptr, call, facts);
}

// Text like ": in 4 lanes, the least cost (12.1us; next tree 23.8us) by the network 'within ...', rule ...".
std::string Selector::cost_text(const Collective& call, const PlannedBackend& plans) const {
  constexpr std::size_t most_named = 4;
  std::string text;
  const auto ranked = by_cost(call, plans);
  for (const model::Candidate& one : std::span(ranked).first(std::min(ranked.size(), most_named))) {
    if (text.empty())
      text = ": " + (one.lanes.number > 1 ? "in " + std::to_string(one.lanes.number) + " lanes, " : "") +
             "the least cost (" + model::time_text(one.seconds);
    else
      text += (&one == &ranked[1] ? "; next " : ", ") + std::string(one.algorithm->name) + " " +
              model::time_text(one.seconds);
  }
  return text + ") by the network '" + to_string(network_of(plans)) + "'";
}

std::string Selector::explain(const Collective& call, const Facts& facts, const Backends& backends) const {
  const Choice choice = choose(call, facts, backends);
  if (choice.backend == nullptr) return "nobody can do this call";
  std::string_view algorithm = choice.algorithm;
  if (algorithm.empty() && choice.backend->name() == PlannedBackend::own_name)
    algorithm = static_cast<const PlannedBackend*>(choice.backend)->algorithm(call, {})->name;
  std::string why = full_name(choice.backend->name(), algorithm);
  if (choice.by_cost) why += cost_text(call, static_cast<const PlannedBackend&>(*choice.backend));
  if (choice.rule != nullptr)
    why += (choice.by_cost ? ", rule '" : ": rule '") + to_string(*choice.rule) + "' (" + choice.rule->source + ")";
  else if (!choice.by_cost)
    why += ": no rule fits, the first that can";
  std::string others;
  const auto add = [&](const std::string& name) { others += (others.empty() ? "" : ", ") + name; };
  for (const auto& backend : backends) {
    if (backend->name() == PlannedBackend::own_name) {
      for (const Algorithm* other : catalog())
        if (other->kind == call.kind && (backend.get() != choice.backend || other->name != algorithm))
          add(std::string(other->name));
    } else if (backend.get() != choice.backend && (backend->name() != staged || facts.device != Device::Kind::cpu)) {
      const Status able = backend->supports(call, {});
      add(std::string(backend->name()) + (able.ok() ? "" : " (" + std::string(able.text()) + ")"));
    }
  }
  for (const std::string& name : known_)
    if (name != staged && find(backends, name) == nullptr && std::ranges::any_of(rules_, [&](const Rule& rule) {
          return rule.target.backend == name && (!rule.device || *rule.device == facts.device);
        }))
      add(name + " (not made for this communicator)");
  if (!others.empty()) why += "; not chosen: " + others;
  return why;
}

}  // namespace tutti
