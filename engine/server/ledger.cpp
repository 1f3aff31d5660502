#include "engine/server/ledger.hpp"

#include <algorithm>
#include <utility>

#include "collectives/parameter_server/serialization.hpp"
#include "tutti/status.hpp"

namespace tutti::engine {

Ledger::Ledger(std::vector<Share> shares, bool claims) : claims_(claims), first_workers_(shares.size()) {
  for (const Share& share : shares) workers_.push_back({.share = share, .taken = {}, .given = {}});
}

std::int64_t Ledger::Worker::end_of_epoch(std::int64_t number) const {
  const std::int64_t epoch = number / per_epoch();
  const auto found = given.find(epoch);
  return std::min((epoch + 1) * per_epoch(), share.steps) - (found == given.end() ? 0 : found->second);
}

std::int64_t Ledger::Worker::given_before(std::int64_t number) const {
  std::int64_t count = 0;
  for (const auto& [epoch, steps] : given) count += end_of_epoch(epoch * per_epoch()) < number ? steps : 0;
  return count;
}

std::int64_t Ledger::Worker::own_number(std::int64_t count) const {
  std::int64_t number = first + count;
  for (const auto& [epoch, steps] : given) {  // epochs are in ascending order
    const std::int64_t end = end_of_epoch(epoch * per_epoch());
    if (first < end + steps && number >= end) number += steps;
  }
  return number;
}

std::int64_t Ledger::Worker::pushed_or_waiting(std::int64_t waiting) const {
  return pushed + std::max<std::int64_t>(0, waiting - restored);
}

Ledger::Unit Ledger::unit(const DealtStep& step) const {
  return {step.number / of(step.worker).per_epoch(), step.worker, step.number};
}

void Ledger::admit(int worker) {
  while (workers_.size() <= static_cast<std::size_t>(worker))
    workers_.push_back({.share = {}, .taken = {}, .given = {}, .has_come = false, .is_there = false});
}

void Ledger::comes(int worker) {
  admit(worker);  // also adds all lower numbers, although those workers may never come
  Worker& one = of(worker);
  if (!std::exchange(one.has_come, true)) one.is_there = true;
}

/// Returns the step that a worker did after `number` others: one that it had taken, or one of its own.
DealtStep Ledger::nth(int worker, std::int64_t number) const {
  std::int64_t before = 0;
  for (const Taken& one : of(worker).taken) {
    if (one.at == number) return one.step;
    before += one.at < number ? 1 : 0;
  }
  return {worker, of(worker).own_number(number - before)};
}

/// Returns the number of the own step that follows the first `number` steps that a worker did.
std::int64_t Ledger::own_before(int worker, std::int64_t number) const {
  const Worker& one = of(worker);
  return one.own_number(number - std::ranges::count_if(one.taken, [&](const Taken& each) { return each.at < number; }));
}

std::int64_t Ledger::own_pushed(int worker) const { return own_before(worker, of(worker).pushed); }

void Ledger::pushed(int worker, std::uint64_t steps) {
  admit(worker);  // needed on servers other than the first, which do not call comes()
  Worker& one = of(worker);
  const auto all = static_cast<std::int64_t>(steps);
  const std::int64_t before = std::min(one.restored, all);
  one.restored -= before;
  one.pushed += all - before;
}

void Ledger::round(std::size_t participants) {
  ++rounds_.all;
  if (2 * participants < workers_seen()) ++rounds_.small;
}

Ledger::Deal Ledger::ask(int worker, std::int64_t done, std::int64_t epoch, bool is_last) {
  Worker& one = of(worker);
  if (is_stopped_) return {};
  one.is_idle = is_last;
  if (is_last && free_.empty()) free_unclaimed(worker);
  if (!free_.empty() && (is_last || free_.begin()->epoch <= epoch)) {
    const Unit next = *free_.begin();
    free_.erase(free_.begin());
    one.taken.push_back({done, {next.worker, next.number}});
    one.is_idle = false;
    return {Deal::What::take, {next.worker, next.number}};
  }
  const bool is_alone =
      std::ranges::none_of(workers_, [](const Worker& other) { return other.is_there && !other.is_idle; });
  return {is_last && !is_alone ? Deal::What::wait : Deal::What::none, {}};
}

// Finds the worker with the most unclaimed steps in its epoch, and frees the last of them. Does nothing without claims.
void Ledger::free_unclaimed(int worker) {
  if (!claims_) return;
  const auto left = [&](int other) {
    const Worker& one = of(other);
    return one.is_there && !one.is_idle && other != worker ? one.end_of_epoch(one.claimed) - one.claimed : 0;
  };
  int most = 0;
  for (int other = 1; other < static_cast<int>(workers_.size()); ++other)
    if (left(other) > left(most)) most = other;
  if (left(most) <= 0) return;
  Worker& one = of(most);
  const std::int64_t number = one.end_of_epoch(one.claimed) - 1;
  ++one.given[number / one.per_epoch()];
  free_.insert(unit({most, number}));
}

std::int64_t Ledger::claim(int worker, std::int64_t from, std::int64_t count) {
  Worker& one = of(worker);
  const std::int64_t until = std::max(from, std::min(from + count, one.end_of_epoch(from)));
  one.claimed = std::max(one.claimed, until);
  return until;
}

void Ledger::gone(int worker, Parting how, std::uint64_t waiting) {
  admit(worker);
  Worker& one = of(worker);
  if (!std::exchange(one.is_there, false)) return;
  one.parting = how;
  if (how == Parting::left) return;
  const std::int64_t safe = one.pushed_or_waiting(static_cast<std::int64_t>(waiting));
  for (std::int64_t number = own_before(worker, safe); number < one.share.steps; ++number)
    if (!one.has_given(number)) free_.insert(unit({worker, number}));
  for (const Taken& each : one.taken)
    if (each.at >= safe) free_.insert(unit(each.step));
}

Ledger::Fate Ledger::fate(int worker) const {
  const Worker& one = of(worker);
  const auto missing = std::ranges::count_if(free_, [&](const Unit& each) { return each.worker == worker; });
  const std::int64_t next = own_pushed(worker);
  return {one.has_come,
          one.is_there,
          one.parting,
          one.share.steps,
          next - one.given_before(next),
          missing,
          one.taken_before + std::ranges::count_if(one.taken, [&](const Taken& each) {
            return one.is_there || one.parting == Parting::left || each.at < one.pushed;
          })};
}

std::size_t Ledger::workers_seen() const noexcept {
  return static_cast<std::size_t>(std::ranges::count(workers_, true, &Worker::has_come));
}

int Ledger::teller() const {
  return static_cast<int>(
      std::ranges::find_if(
          workers_, [](const Worker& one) { return one.has_come && (one.is_there || one.parting == Parting::left); }) -
      workers_.begin());
}

std::vector<std::byte> Ledger::save(const Waiting& waiting) const {
  std::set<Unit> free = free_;
  Serializer archive, joined;
  archive.put<std::uint64_t>(first_workers_);
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    const Worker& one = workers_[i];
    const int worker = static_cast<int>(i);
    const auto found = waiting.find(worker);
    const std::int64_t waits = found == waiting.end() ? 0 : found->second;
    const std::int64_t safe = one.pushed_or_waiting(waits);
    std::int64_t first = own_before(worker, safe), taken = one.taken_before;
    for (const Taken& each : one.taken) {
      if (each.at < safe)
        ++taken;
      else if (one.is_there)  // if the worker is gone, gone() has freed the step already
        free.insert(unit(each.step));
    }
    if (i >= first_workers_) {  // a resumed run applies the pushes of joined workers, but begins without these workers
      joined.put(worker);
      joined.put(waits);
      continue;
    }
    if (!one.is_there) first = first_untouched(worker);
    archive.put(one.share);
    archive.put(first);
    archive.put(taken);
    archive.put(waits);
    archive.put<std::uint64_t>(one.given.size());
    for (const auto& [epoch, steps] : one.given) {
      archive.put(epoch);
      archive.put(first > epoch * one.per_epoch() || one.is_there ? steps : 0);
    }
  }
  archive.put_bytes(joined.bytes());
  std::erase_if(
      free, [&](const Unit& each) { return !of(each.worker).is_there && each.number >= first_untouched(each.worker); });
  for (const Unit& each : free) archive.put(each);
  return archive.take();
}

/// For a worker that is gone: returns the number of the step from which on all steps of its share are free. It is the
/// first step of an epoch, or the end of the share.
std::int64_t Ledger::first_untouched(int worker) const {
  const Worker& one = of(worker);
  const std::int64_t each = one.per_epoch();
  std::int64_t first = one.share.steps;
  while (first > 0) {
    const std::int64_t begin = (first - 1) / each * each;
    for (std::int64_t number = begin; number < first; ++number)
      if (!free_.contains(unit({worker, number}))) return first;
    first = begin;
  }
  return first;
}

void Ledger::load(std::span<const std::byte> saved) {
  Deserializer archive(saved);
  std::vector<Worker> loaded(archive.take<std::uint64_t>());
  for (Worker& one : loaded) {
    one.share = archive.take<Share>();
    one.first = one.claimed = archive.take<std::int64_t>();
    one.taken_before = archive.take<std::int64_t>();
    one.restored = archive.take<std::int64_t>();
    for (auto left = archive.take<std::uint64_t>(); left > 0; --left) {
      const auto epoch = archive.take<std::int64_t>();
      one.given[epoch] = archive.take<std::int64_t>();
    }
  }
  Deserializer joined(archive.take_bytes());
  workers_.resize(first_workers_);
  const bool fits = std::ranges::equal(loaded, workers_, [](const Worker& a, const Worker& b) {
    return a.share.steps_per_epoch == b.share.steps_per_epoch;
  });
  if (!fits)
    throw Error(Code::invalid,
                "what the masters knew of the workers is of another number of workers or of samples: "
                "resume with as many ranks, masters and processes, and the same data and batch");
  for (std::size_t i = 0; i < loaded.size(); ++i) {
    const Worker& one = loaded[i];
    const bool ended_within =
        one.share.steps % one.per_epoch() != 0 && one.given.contains(one.share.steps / one.per_epoch());
    if (ended_within && one.share.steps != workers_[i].share.steps)
      throw Error(
          Code::invalid,
          "the run ended inside an epoch of which workers that had joined did a part: resume with the same steps=" +
              std::to_string(one.share.steps));
  }
  for (std::size_t i = 0; i < loaded.size(); ++i) loaded[i].share = workers_[i].share;  // may have more epochs now
  workers_ = std::move(loaded);
  while (!joined.is_at_end()) {
    const int worker = joined.take<int>();
    admit(worker);
    of(worker).restored = joined.take<std::int64_t>();
  }
  free_.clear();
  while (!archive.is_at_end()) free_.insert(archive.take<Unit>());
}

int WorkerRanks::worker_of(int rank) const {
  const auto found = std::ranges::find(ranks, rank);
  return static_cast<int>(found - ranks.begin()) + (found == ranks.end() ? rank - first_joined : 0);
}

ServerRule with_ledger(ServerRule rule, std::shared_ptr<Ledger> ledger, WorkerRanks ranks) {
  const bool has_rounds = rule.quorum > 1 || rule.grace > 0;
  rule.apply = [apply = std::move(rule.apply), ledger, ranks, has_rounds](const ShardView& shard,
                                                                          std::span<const Pushed> pushed) {
    apply(shard, pushed);
    if (has_rounds) ledger->round(pushed.size());
    for (const Pushed& one : pushed) ledger->pushed(ranks.worker_of(one.meta.worker), one.meta.steps);
  };
  rule.parted = [ledger, ranks](int rank, Parting how, std::uint64_t waiting) {
    ledger->gone(ranks.worker_of(rank), how, waiting);
  };
  rule.save = [save = std::move(rule.save), ledger, ranks](std::span<const Pushed> waiting) {
    Ledger::Waiting steps;
    for (const Pushed& one : waiting)
      steps[ranks.worker_of(one.meta.worker)] += static_cast<std::int64_t>(one.meta.steps);
    Serializer archive;
    archive.put_bytes(ledger->save(steps));
    archive.put_bytes(save ? save(waiting) : std::vector<std::byte>());
    return archive.take();
  };
  rule.load = [load = std::move(rule.load), ledger](std::span<const std::byte> saved) {
    Deserializer archive(saved);
    ledger->load(archive.take_bytes());
    const ConstBytes rest = archive.take_bytes();
    if (load) load(rest);
  };
  return rule;
}

ServerRule deal_rule(std::shared_ptr<Ledger> ledger, WorkerRanks ranks) {
  const auto answer_to = [ledger](int worker, const double* asked) -> Ledger::Deal {
    const auto whole = [&](std::size_t i) { return static_cast<std::int64_t>(asked[i]); };
    switch (static_cast<LedgerQuestion>(whole(0))) {
      case LedgerQuestion::further: return ledger->ask(worker, whole(1), whole(2), asked[3] != 0);
      case LedgerQuestion::stop: ledger->stop(); return {};
      case LedgerQuestion::claim: return {.step = {worker, ledger->claim(worker, whole(1), whole(2))}};
      default: return {.step = {ledger->teller(), ledger->own_pushed(worker)}};
    }
  };
  return {.apply =
              [answer_to, ledger, ranks](const ShardView&, std::span<const Pushed> pushed) {
                for (const Pushed& one : pushed) {
                  const int worker = ranks.worker_of(one.meta.worker);
                  ledger->comes(worker);
                  const Ledger::Deal deal = answer_to(worker, reinterpret_cast<const double*>(one.data.data));
                  if (one.answer.count == 0) continue;
                  auto* const answer = reinterpret_cast<double*>(one.answer.data);
                  answer[0] = static_cast<double>(deal.what);
                  answer[1] = deal.step.worker;
                  answer[2] = static_cast<double>(deal.step.number);
                }
              },
          .answers = true};
}

}  // namespace tutti::engine
