// Consensus: how the ranks of a communicator agree on a value and on a list of lost ranks although ranks die meanwhile.
//
// The lowest rank that is not held for lost leads. Every rank sends its vote to the leader. When the leader has the
// votes of all ranks that it does not hold for lost, it proposes the and of their bits together with the list of lost
// ranks; when all of these ranks have accepted the proposal, it tells them the decision. If the leader dies, the next
// rank leads: every rank sends it the vote, and before the vote the proposal that the rank has accepted, or the
// decision if it knows that. The new leader must propose the accepted proposal of the highest leader again: a decision
// that some rank has taken was accepted by all ranks that are left. Whom one rank of the agreement holds for lost is
// held for lost by every rank that receives a message of it, and nothing is accepted from lost ranks.
//
// Cost: four messages between the leader and each rank; for every leader that dies, four or five more. The protocol has
// no coordinator that must live, and it ends when all ranks that are left have voted, as long as a lost rank is held
// for lost by all in the end. It is a form of the three-phase commit with a take-over by rank (Skeen, 1981).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "tutti/buffer.hpp"

namespace tutti {

/// One rank's part in one agreement. It does no I/O: its owner passes in what has arrived, and gets what to send.
/// Ranks are world ranks. Threads: one at a time.
class Consensus {
 public:
  /// The number of an agreement: of a communicator, and within it from 1.
  struct Name {
    std::uint64_t group = 0;
    std::uint32_t number = 0;
    auto operator<=>(const Name&) const = default;
  };
  /// What each rank votes, and what is decided: the bitwise and of all votes. `purposes` has one bit for each function
  /// that agrees, so ranks that call different ones learn it from a decision without any.
  struct Value {
    std::uint64_t bits = 0;
    std::uint32_t purposes = ~std::uint32_t{0};
    Value operator&(const Value& other) const { return {bits & other.bits, purposes & other.purposes}; }
    bool operator==(const Value&) const = default;
  };
  /// A value, and the ranks that are held for lost, in ascending order.
  struct Outcome {
    Value value;
    std::vector<int> lost;
    bool operator==(const Outcome&) const = default;
  };
  /// Sends a letter of at most `longest` bytes. Letters from one rank to another arrive in order, unless one is lost.
  using Send = std::function<void(int to, ConstBytes letter)>;
  static constexpr std::size_t longest = 1024;

  /// `members`: the ranks of the agreement, in an order that all of them pass alike. `rank`: this one.
  Consensus(Name name, std::vector<int> members, int rank, Send send);

  /// Gives this rank's vote. Called once.
  void vote(Value value);
  /// Handles a letter of rank `from`. A letter that is not well-formed is ignored.
  void receive(int from, ConstBytes letter);
  /// Holds `rank` for lost. Ranks that are no members are ignored.
  void lose(int rank);

  /// The decision, once this rank knows it. Equal on all ranks.
  const std::optional<Outcome>& outcome() const noexcept { return outcome_; }
  /// The rank that holds this rank for lost; -1: none is known. There will be no outcome then.
  int excluded_by() const noexcept { return excluded_by_; }
  /// Where the agreement waits: the ranks whose vote or acceptance the leader lacks; on other ranks the leader.
  std::vector<int> awaited() const;

  /// The agreement that a letter belongs to; nullopt if it is none.
  static std::optional<Name> name_of(ConstBytes letter);
  /// True for a letter of probe().
  static bool is_probe(ConstBytes letter);
  /// Sends a letter that receivers ignore.
  void probe(int to) const { post(to, Kind::probe, {}); }

 private:
  enum class Kind : std::uint8_t { vote = 1, accepted, proposal, acceptance, decision, probe };
  struct Header;
  struct Run;
  struct Proposal {
    std::int32_t leader = -1;  ///< index of the proposing rank in members_
    Outcome what;
  };

  bool is_member(int rank) const;
  int leader() const;
  bool leads() const { return leader() == rank_; }
  bool is_live(int rank) const { return !lost_.contains(rank); }
  std::size_t live() const { return members_.size() - lost_.size(); }  // how many
  std::vector<int> live_others() const;
  bool note_lost(int rank);
  void after_loss(int old_leader);
  void report();
  void propose_if_all_voted();
  void decide_if_all_accepted();
  void decide(Outcome what);
  void lose_all(const std::vector<int>& ranks, int teller);
  void handle(int from, const Header& header, std::vector<int> lost);
  void post(int to, Kind kind, const Proposal& what) const;
  std::vector<int> lost() const { return {lost_.begin(), lost_.end()}; }

  const Name name_;
  const std::vector<int> members_;
  const std::vector<int> sorted_;  // the members in ascending order
  const int rank_;
  const Send send_;
  std::set<int> lost_;
  std::optional<Value> vote_;  // of this rank
  std::optional<Proposal> accepted_;
  std::optional<Outcome> outcome_;
  int excluded_by_ = -1;
  std::map<int, std::vector<int>> parts_;  // by sender: the lost ranks of a letter's parts so far
  // of the leader
  std::map<int, Value> votes_;       // of live ranks
  std::map<int, Proposal> earlier_;  // by live rank: the proposal of an earlier leader that it has accepted
  std::set<int> acceptances_;        // live ranks that have accepted this rank's proposal
  bool proposes_ = false;
};

}  // namespace tutti
