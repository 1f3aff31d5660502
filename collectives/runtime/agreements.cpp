#include "collectives/runtime/agreements.hpp"

#include <algorithm>

#include "collectives/runtime/context.hpp"
#include "transports/core/ranges.hpp"

namespace tutti {
namespace {

constexpr std::size_t most_letters = 1 << 16;  // letters of agreements that this rank has not begun
constexpr std::size_t most_kept = 1024;        // agreements

}  // namespace

Consensus::Name Agreements::next(std::uint64_t group) const {
  const auto found = ended_.find(group);
  return {group, found == ended_.end() ? 1 : found->second + 1};
}

void Agreements::begin(Ref<PendingAgreement> pending, const std::vector<int>& members, const std::vector<int>& lost,
                       Consensus::Value vote) {
  const Consensus::Name name = pending->name();
  One& one = all_[name];
  one.pending = std::move(pending);
  if (!one.consensus) {
    one.consensus = std::make_unique<Consensus>(name, members, rank_, send_);
    for (const int rank : lost) one.consensus->lose(rank);
    for (const auto& [from, letter] : std::exchange(one.early, {})) {
      --early_;
      one.consensus->receive(from, letter);
    }
    one.consensus->vote(vote);
  }
  settle(one);
}

bool Agreements::receive(int from, ConstBytes letter) {
  const auto name = Consensus::name_of(letter);
  if (!name) return false;
  const auto later = all_.upper_bound({name->group, ~std::uint32_t{0}});
  const bool is_known = all_.contains(*name);
  if (!is_known && later != all_.begin()) {
    const auto& [newest, _] = *std::prev(later);
    if (newest.group == name->group && newest.number > name->number) return true;  // it has ended everywhere
  }
  const bool may_be_kept = early_ < most_letters && !Consensus::is_probe(letter);
  if (!is_known && !may_be_kept) return true;
  One& one = all_[*name];
  if (one.consensus) {
    one.consensus->receive(from, letter);
    settle(one);
  } else if (may_be_kept) {
    ++early_;
    one.early.emplace_back(from, std::vector<std::byte>(letter.begin(), letter.end()));
  }
  return true;
}

void Agreements::lose(int rank) {
  for (auto& [name, one] : all_) {
    if (!one.consensus) continue;
    one.consensus->lose(rank);
    settle(one);
  }
}

void Agreements::fail(const Status& why) {
  for (auto& [name, one] : all_)
    if (one.pending) std::exchange(one.pending, {})->complete(why);
}

std::vector<int> Agreements::awaited(Consensus::Name name) const {
  const auto found = all_.find(name);
  return found == all_.end() || !found->second.consensus ? std::vector<int>() : found->second.consensus->awaited();
}

void Agreements::probe_awaited(Consensus::Name name) const {
  for (const int rank : awaited(name)) all_.at(name).consensus->probe(rank);
}

// Ends the wait for an agreement that has an outcome, or from which this rank is excluded.
void Agreements::settle(One& one) {
  if (!one.pending) return;
  if (const auto& outcome = one.consensus->outcome()) {
    const Ref<PendingAgreement> pending = std::exchange(one.pending, {});
    ended_[pending->name().group] = pending->name().number;
    pending->end(*outcome);
    forget_before(pending->name());
  } else if (const int by = one.consensus->excluded_by(); by >= 0) {
    const std::string who = std::to_string(by);
    std::exchange(one.pending, {})
        ->complete(Status::failure(Code::peer_lost,
                                   "rank " + std::to_string(rank_) + " is held for lost by rank " + who +
                                       " and by the ranks that agree with it, which go on without it; end this process",
                                   rank_));
  }
}

// All ranks that vote in an agreement have the outcome of the one before it.
void Agreements::forget_before(Consensus::Name name) {
  all_.erase(all_.lower_bound({name.group, 0}), all_.find(name));
  if (all_.size() <= most_kept) return;
  const auto ended = std::ranges::find_if(all_, [&](const auto& entry) {
    return entry.first != name && entry.second.consensus && entry.second.consensus->outcome();
  });
  if (ended != all_.end()) all_.erase(ended);
}

// ---- an agreement, from a thread of the user ------------------------------------------------------

Consensus::Outcome Context::agree(const GroupState& group, Consensus::Value vote, Seconds allowed,
                                  std::uint32_t& number) {
  constexpr Seconds longest_pause(4);  // from one probe to the next
  PendingAgreement* pending = nullptr;
  do_holding([&] {
    refuse_if_cast_off();
    const Consensus::Name name = agreements_.next(group.group().id);
    number = name.number;
    std::vector<int> members(group.group().members.begin(), group.group().members.end()), lost;
    for (const auto& [of, culprit] : acted_on_)
      if (of == 0) lost.push_back(culprit);
    pending = new PendingAgreement(shared_from_this(), name);
    agreements_.begin(Ref<PendingAgreement>::adopt(*pending), members, lost, vote);
  });
  const Work work(*pending);
  Seconds left = allowed;
  for (Seconds pause(0.25); !work.wait_for(std::min(left, pause)); pause = std::min(2 * pause, longest_pause)) {
    left -= pause;
    if (left <= Seconds(0)) throw not_agreed(group, *pending, allowed);
    do_holding([&] { agreements_.probe_awaited(pending->name()); });
  }
  for (const int rank : pending->outcome().lost) {
    Cause why;
    why.code = Code::peer_lost;
    why.culprit = rank;
    why.reporter = rank_;
    why.say("rank " + std::to_string(rank) + " is held for lost by the ranks that have agreed without it");
    fail(why);
  }
  return pending->outcome();
}

// The other ranks go on without this one, or its transports have failed as a whole.
void Context::refuse_if_cast_off() const {
  const auto why = std::ranges::find_if(
      ended_, [this](const Cause& one) { return one.group == 0 && (one.culprit == rank_ || one.culprit < 0); });
  if (why != ended_.end()) throw Error(*why, "agree: the others go on without this rank: " + std::string(why->text));
}

Error Context::not_agreed(const GroupState& group, const PendingAgreement& pending, Seconds allowed) {
  std::vector<int> ranks;
  do_holding([&] {
    for (const int one : agreements_.awaited(pending.name())) ranks.push_back(group.group().rank_of(one));
  });
  std::ranges::sort(ranks);
  const std::string limit = std::to_string(allowed.count());
  return Error(Code::timeout,
               "agree: " + ranks_text(ranks) + (ranks.size() == 1 ? " has" : " have") + " not answered for " + limit +
                   " s; every rank that is left must call agree() or shrink(). Call it again to go on with this one",
               ranks.empty() ? -1 : group.group().members[static_cast<std::size_t>(ranks.front())]);
}

}  // namespace tutti
