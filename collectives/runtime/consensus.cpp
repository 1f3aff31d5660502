#include "collectives/runtime/consensus.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace tutti {
namespace {

std::vector<int> in_order(std::vector<int> ranks) {
  std::ranges::sort(ranks);
  return ranks;
}

}  // namespace

// Head of a letter. Runs of lost ranks follow.
struct Consensus::Header {
  static constexpr std::uint32_t magic = 0x31435554;
  std::uint32_t type = magic;
  std::uint32_t number = 0;
  std::uint64_t group = 0;
  std::uint64_t bits = 0;
  std::uint32_t purposes = 0;
  std::int32_t leader = -1;
  Kind kind = Kind::vote;
  std::uint8_t more = 0;  // 1: the next letter of the sender continues the list of this one
  std::uint16_t runs = 0;
  std::uint32_t spare = 0;  // so that no uninitialised bytes are sent
};

// The ranks first, first + step, ... of a list.
struct Consensus::Run {
  std::int32_t first = 0, count = 0, step = 1;
};

Consensus::Consensus(Name name, std::vector<int> members, int rank, Send send)
    : name_(name), members_(std::move(members)), sorted_(in_order(members_)), rank_(rank), send_(std::move(send)) {}

bool Consensus::is_member(int rank) const { return std::ranges::binary_search(sorted_, rank); }

std::optional<Consensus::Name> Consensus::name_of(ConstBytes letter) {
  Header header;
  if (letter.size() < sizeof header) return std::nullopt;
  std::memcpy(&header, letter.data(), sizeof header);
  if (header.type != Header::magic) return std::nullopt;
  return Name{header.group, header.number};
}

bool Consensus::is_probe(ConstBytes letter) {
  if (!name_of(letter)) return false;
  Header header;
  std::memcpy(&header, letter.data(), sizeof header);
  return header.kind == Kind::probe;
}

int Consensus::leader() const {
  const auto found = std::ranges::find_if(members_, [this](int one) { return is_live(one); });
  return found == members_.end() ? -1 : *found;
}

std::vector<int> Consensus::live_others() const {
  std::vector<int> ranks;
  std::ranges::copy_if(members_, std::back_inserter(ranks), [this](int one) { return one != rank_ && is_live(one); });
  return ranks;
}

std::vector<int> Consensus::awaited() const {
  if (outcome_) return {};
  if (!leads()) return {leader()};
  std::vector<int> ranks = live_others();
  std::erase_if(ranks, [this](int one) { return proposes_ ? acceptances_.contains(one) : votes_.contains(one); });
  return ranks;
}

void Consensus::vote(Value value) {
  vote_ = value;
  report();
}

// Tells the leader what this rank knows.
void Consensus::report() {
  if (excluded_by_ >= 0) return;
  if (leads()) {
    if (outcome_) return decide(*outcome_);
    return propose_if_all_voted();
  }
  if (outcome_) return post(leader(), Kind::decision, {-1, *outcome_});
  if (!vote_) return;
  if (accepted_) post(leader(), Kind::accepted, *accepted_);
  post(leader(), Kind::vote, {-1, {*vote_, lost()}});
}

void Consensus::propose_if_all_voted() {
  if (!leads() || outcome_ || proposes_ || !vote_) return;
  votes_[rank_] = *vote_;
  if (votes_.size() < live()) return;
  Proposal next{-1, {*vote_, lost()}};
  for (const auto& [rank, vote] : votes_) next.what.value = next.what.value & vote;
  if (accepted_) earlier_[rank_] = *accepted_;
  for (const auto& [rank, one] : earlier_)
    if (one.leader > next.leader) next = one;
  next.leader = static_cast<std::int32_t>(std::ranges::find(members_, rank_) - members_.begin());
  proposes_ = true;
  accepted_ = next;
  acceptances_ = {rank_};
  for (const int one : live_others()) post(one, Kind::proposal, next);
  decide_if_all_accepted();
}

void Consensus::decide_if_all_accepted() {
  if (proposes_ && !outcome_ && acceptances_.size() == live()) decide(accepted_->what);
}

// Takes the decision; the leader tells all others.
void Consensus::decide(Outcome what) {
  outcome_ = std::move(what);
  if (!leads()) return;
  for (const int one : live_others()) post(one, Kind::decision, {-1, *outcome_});
}

bool Consensus::note_lost(int rank) {
  if (rank == rank_ || !is_member(rank) || !lost_.insert(rank).second) return false;
  votes_.erase(rank);
  earlier_.erase(rank);
  acceptances_.erase(rank);
  return true;
}

void Consensus::after_loss(int old_leader) {
  if (leader() != old_leader) return report();
  propose_if_all_voted();
  decide_if_all_accepted();
}

void Consensus::lose(int rank) {
  const int before = leader();
  if (excluded_by_ < 0 && note_lost(rank)) after_loss(before);
}

// Notes several ranks at once, so that none of them counts as the leader meanwhile.
void Consensus::lose_all(const std::vector<int>& ranks, int teller) {
  if (std::ranges::count(ranks, rank_) > 0) {
    if (!outcome_) excluded_by_ = teller;
    return;
  }
  const int before = leader();
  bool any = false;
  for (const int one : ranks) any |= note_lost(one);
  if (any) after_loss(before);
}

void Consensus::receive(int from, ConstBytes letter) {
  if (from == rank_ || !is_member(from) || !is_live(from) || name_of(letter) != name_ || excluded_by_ >= 0) return;
  Header header;
  std::memcpy(&header, letter.data(), sizeof header);
  if (letter.size() != sizeof header + header.runs * sizeof(Run)) return;
  std::vector<int>& lost = parts_[from];
  for (std::size_t i = 0; i < header.runs; ++i) {
    Run run;
    std::memcpy(&run, letter.data() + sizeof header + i * sizeof run, sizeof run);
    if (run.count < 0 || lost.size() + static_cast<std::size_t>(run.count) > members_.size()) return lost.clear();
    for (std::int64_t k = 0; k < run.count; ++k)
      lost.push_back(static_cast<int>(run.first + k * run.step));  // a rank that is no member is passed over later
  }
  if (header.more != 0) return;
  handle(from, header, std::exchange(lost, {}));
}

void Consensus::handle(int from, const Header& header, std::vector<int> lost) {
  lose_all(lost, from);
  if (excluded_by_ >= 0) return;
  const Proposal told{header.leader, {{header.bits, header.purposes}, std::move(lost)}};
  switch (header.kind) {
    case Kind::accepted: earlier_[from] = told; return;  // the vote follows
    case Kind::vote:
      if (outcome_) return post(from, Kind::decision, {-1, *outcome_});
      votes_[from] = told.what.value;
      return propose_if_all_voted();
    case Kind::proposal:
      if (outcome_) return post(from, Kind::decision, {-1, *outcome_});
      if (from != leader() || !vote_) return;
      accepted_ = told;
      return post(from, Kind::acceptance, {header.leader, {}});
    case Kind::acceptance:
      if (!proposes_ || outcome_) return;
      acceptances_.insert(from);
      return decide_if_all_accepted();
    case Kind::decision:
      if (!outcome_) decide(told.what);
      return;
    case Kind::probe: return;
  }
}

void Consensus::post(int to, Kind kind, const Proposal& what) const {
  std::vector<Run> runs;
  for (const int one : what.what.lost) {
    if (!runs.empty()) {
      Run& last = runs.back();
      if (last.count == 1) last.step = one - last.first;
      if (one == last.first + last.count * last.step) {
        ++last.count;
        continue;
      }
    }
    runs.push_back({one, 1, 1});
  }
  constexpr std::size_t most = (longest - sizeof(Header)) / sizeof(Run);
  std::size_t begin = 0;
  do {
    const std::size_t n = std::min(most, runs.size() - begin);
    Header header;
    header.number = name_.number;
    header.group = name_.group;
    header.bits = what.what.value.bits;
    header.purposes = what.what.value.purposes;
    header.leader = what.leader;
    header.kind = kind;
    header.more = begin + n < runs.size() ? 1 : 0;
    header.runs = static_cast<std::uint16_t>(n);
    std::vector<std::byte> letter(sizeof header + n * sizeof(Run));
    std::memcpy(letter.data(), &header, sizeof header);
    if (n > 0) std::memcpy(letter.data() + sizeof header, runs.data() + begin, n * sizeof(Run));
    send_(to, letter);
    begin += n;
  } while (begin < runs.size());
}

}  // namespace tutti
