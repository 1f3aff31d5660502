// Control messages between the ranks of a context, mainly those of the watchdog. When a call takes long, a rank asks
// other ranks which calls they have made. This detects mismatched calls even if all ranks only receive, and lets a
// timeout name the missing rank and its last call.
//
// In a group of at most `few_ranks` each rank asks all others. In a larger group a rank asks the ranks that its call
// exchanges with now, over links that the call needs anyway. Each rank remembers the ranks that have asked it. When it
// learns which rank has not made the call, it tells them, and they tell the ranks that have asked them. The
// information travels back along the chain of waiting ranks: log p links for trees, at most p for rings. A report says
// how old its information is, and ranks forget old information.
#include <algorithm>
#include <chrono>
#include <cstring>

#include "collectives/runtime/context.hpp"
#include "transports/core/ranges.hpp"

namespace tutti {
namespace {

using namespace std::chrono_literals;

constexpr auto first_question = 200ms;
constexpr auto next_question = 500ms;
constexpr int few_ranks = 9;             // in groups of at most this size a rank asks all others
constexpr int most_doublings = 2;        // of the time between two questions about a call, in larger groups
constexpr std::size_t most_askers = 64;  // ranks that a rank remembers as waiting for it in one call
constexpr std::size_t most_early = 64;   // groups not yet made on this rank for which it keeps messages

enum class MessageType : std::uint32_t { query = 0x31515554, answer = 0x31415554, users = 0x31555554 };

struct Query {
  MessageType type = MessageType::query;
  std::uint32_t sequence = 0;
  std::uint64_t group = 0;
  std::uint64_t call = 0;
};

struct Reply {
  MessageType type = MessageType::answer;
  std::uint32_t sequence = 0;
  std::uint64_t group = 0;
  std::uint64_t call = 0;  // signature of the answering rank's call with this number
  std::uint64_t completed_call = 0;
  std::uint32_t completed = 0;
  std::uint32_t begun = 0;  // number of its latest call; 0: none
  // The rank at the end of the chain of waiting ranks, see GroupState::End; -1: not known.
  std::int32_t end = -1;
  std::uint32_t end_is_silent = 0;
  std::uint64_t end_completed_call = 0;
  std::uint32_t end_completed = 0;
  std::uint32_t end_begun = 0;
  std::uint32_t end_age_ms = 0;  // age of the information about `end`, in milliseconds
  std::uint32_t spare = 0;
};

/// Header of a user's control message.
struct Address {
  MessageType type = MessageType::users;
  std::uint32_t spare = 0;
  std::uint64_t group = 0;
};
static_assert(Context::most_control + sizeof(Address) == Transport::max_control);

template <class T>
bool parse(ConstBytes message, MessageType type, T& value) {
  if (message.size() != sizeof(T)) return false;
  std::memcpy(&value, message.data(), sizeof value);
  return value.type == type;
}

template <class T>
ConstBytes as_message(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

std::string call_text(std::uint32_t sequence, Signature call) {
  return "call " + std::to_string(sequence) + ", " + describe(call);
}

}  // namespace

void Context::ask(Operation& operation, Clock::time_point now) {
  if (operation.call().sequence == 0) return;  // point to point: not all ranks take part
  const auto allowed = operation.until() - operation.launched();
  const auto patience = std::min<Clock::duration>(first_question, allowed / 2);
  if (now - operation.launched() < patience) return;
  GroupState& state = operation.own_group();
  const Group& group = state.group();
  const bool few = group.size() <= few_ranks;
  if (operation.asked != Clock::time_point{}) {
    const bool last_chance = operation.until() - now < 2 * next_question;  // the error text needs fresh answers
    const int doublings = few || last_chance ? 0 : std::min(operation.questions - 1, most_doublings);
    if (!few) tell_askers(operation, now);
    if (now - operation.asked < next_question * (1 << doublings)) return;
  }
  operation.asked = now;
  ++operation.questions;
  Query query;
  query.sequence = operation.call().sequence;
  query.group = group.id;
  query.call = operation.call().call.bits;
  for (const int member : whom_to_ask(operation)) {
    const GroupState::Answer* const answer = state.answer_of(member, operation.launched());
    if (member == rank_ || (few && answer != nullptr && answer->has_made(query.sequence))) continue;
    state.note_question(member, now, operation.launched());
    wire().control(member, as_message(query));
  }
}

// Returns all members of a small group. For a larger group returns the ranks that the call exchanges with now or, if
// these are not known, the next rank.
const std::vector<int>& Context::whom_to_ask(const Operation& operation) {
  const Group& group = operation.group().group();
  if (group.size() <= few_ranks) return group.members;
  asked_.clear();
  operation.partners(asked_);
  if (asked_.empty()) asked_.push_back(group.members[static_cast<std::size_t>((group.rank + 1) % group.size())]);
  return asked_;
}

// Tells the ranks that have asked about this call which rank has not made it: when that becomes known, and again when
// there is newer information.
void Context::tell_askers(const Operation& operation, Clock::time_point now) {
  GroupState& state = operation.own_group();
  GroupState::Late* const late = state.find_late(operation.call().sequence);
  if (late == nullptr) return;
  const GroupState::End end = state.end_of_chain(operation.call().sequence, operation.launched(), now);
  const bool is_news = end.rank != late->told.rank || end.at - late->told.at > next_question;
  if (end.rank < 0 || !is_news) return;
  late->told = end;
  for (const int asker : late->askers) reply_to(asker, state, operation.call().sequence, operation.call().call);
}

void Context::read_control(int from, ConstBytes message) {
  Query query;
  Reply reply;
  if (parse(message, MessageType::query, query)) return answer(from, message);
  if (parse(message, MessageType::answer, reply)) return note_answer(from, message);
  if (agreements_.receive(from, message)) return;
  deliver(from, message);
}

// ---- users' control messages --------------------------------------------------------------------

void Context::send_control(const GroupState& group, int to, ConstBytes message) {
  Address address;
  address.group = group.group().id;
  std::vector<std::byte> bytes(sizeof address + message.size());
  std::memcpy(bytes.data(), &address, sizeof address);
  if (!message.empty()) std::memcpy(bytes.data() + sizeof address, message.data(), message.size());
  do_holding([&] { wire().control(to, bytes); });
}

void Context::deliver(int from, ConstBytes message) {
  Address address;
  if (message.size() < sizeof address || !parse(message.first(sizeof address), MessageType::users, address)) return;
  message = message.subspan(sizeof address);
  std::shared_ptr<GroupState> group;
  {
    const std::lock_guard lock(groups_mutex_);
    if (const auto found = groups_.find(address.group); found != groups_.end())
      group = found->second.lock();
    else if (early_.size() < most_early)
      early_[address.group].push_back({from, {message.begin(), message.end()}});
  }
  if (group) deliver_to(group, from, message);
}

// Queues the message; the handler runs later, without the progress token.
void Context::deliver_to(const std::shared_ptr<GroupState>& group, int from, ConstBytes message) {
  group->mailbox().put(group->group().rank_of(from), message);
  defer([group] { group->mailbox().run(); });
}

void Context::answer(int from, ConstBytes message) {
  Query query;
  parse(message, MessageType::query, query);
  const auto group = group_of(query.group);
  if (group == nullptr) {
    Reply reply;
    reply.sequence = query.sequence;
    reply.group = query.group;
    return wire().control(from, as_message(reply));
  }
  if (group->group().size() > few_ranks && running_call(query.group, query.sequence) != nullptr) {
    std::vector<int>& askers = group->late(query.sequence).askers;
    if (askers.size() < most_askers && std::ranges::find(askers, from) == askers.end()) askers.push_back(from);
  }
  reply_to(from, *group, query.sequence, {query.call});
}

Operation* Context::running_call(std::uint64_t group, std::uint32_t sequence) const {
  for (const auto& operation : running_)
    if (operation->group().group().id == group && operation->call().sequence == sequence && !operation->done())
      return &*operation;
  return nullptr;
}

void Context::reply_to(int asker, const GroupState& group, std::uint32_t sequence, Signature asked) {
  Reply reply;
  reply.sequence = sequence;
  reply.group = group.group().id;
  Signature mine;
  const CallRecord completed = group.last_completed();
  reply.completed = completed.sequence;
  reply.completed_call = completed.call.bits;
  reply.call = asked.bits;  // a call that is too old to be remembered counts as equal on both ranks
  reply.begun = group.last_begun();
  if (group.begun(sequence, mine)) reply.call = mine.bits;
  const bool few = group.group().size() <= few_ranks;  // then every rank asks all others itself
  if (const Operation* const waiting = few ? nullptr : running_call(reply.group, sequence); waiting != nullptr) {
    const auto now = Clock::now();
    const GroupState::End end = group.end_of_chain(sequence, waiting->launched(), now);
    reply.end = end.rank;
    reply.end_is_silent = end.is_silent;
    reply.end_age_ms = static_cast<std::uint32_t>(Seconds(now - end.at).count() * 1000);
    if (const auto* const known = end.rank < 0 ? nullptr : group.answer_of(end.rank, waiting->launched())) {
      reply.end_begun = known->begun;
      reply.end_completed = known->completed.sequence;
      reply.end_completed_call = known->completed.call.bits;
    }
  }
  wire().control(asker, as_message(reply));
}

void Context::note_answer(int from, ConstBytes message) {
  Reply reply;
  parse(message, MessageType::answer, reply);
  const Operation* const operation = running_call(reply.group, reply.sequence);
  const auto group = group_of(reply.group);
  if (operation == nullptr || group == nullptr) return;
  const CallRecord& mine = operation->call();
  group->note_answer(from, reply.begun, {reply.completed, {reply.completed_call}});
  const bool made = reply.begun != 0 && static_cast<std::int32_t>(reply.begun - reply.sequence) >= 0;
  if (made && reply.call != mine.call.bits) return fail_as_mismatch(from, mine, {reply.call}, reply.group);
  const auto now = Clock::now();
  const int about = reply.end == rank_ ? -1 : reply.end;
  group->note_hearsay({from,
                       about,
                       now - std::chrono::milliseconds(reply.end_age_ms),
                       reply.end_begun,
                       reply.end_is_silent != 0,
                       {reply.end_completed, {reply.end_completed_call}}});
  tell_askers(*operation, now);
}

void Context::fail_as_mismatch(int other, const CallRecord& mine, Signature theirs, std::uint64_t group) {
  Cause why;
  why.code = Code::mismatch;
  why.culprit = other;
  why.reporter = rank_;
  why.group = group;
  why.say("the ranks do not agree: rank " + std::to_string(rank_) + " made " + call_text(mine.sequence, mine.call) +
          ", but rank " + std::to_string(other) + " made " + call_text(mine.sequence, theirs) +
          ". All ranks must make the same calls in the same order.");
  fail(why);
}

// Says which members a call waits for: "ranks 1-127 on h2 have not made this call", and the last call that they
// completed. Members in the same state are named together. If `first` is negative, sets it to the first such member
// that the call exchanges with now, else to the first one: a member that does not answer may have done its part and
// left.
std::string Context::lacking(const Operation& operation, int& first) const {
  std::vector<int> partners;
  operation.partners(partners);
  bool is_partner = false;
  std::vector<std::pair<std::string, std::vector<int>>> states;  // (last completed call, ranks); "?": no answer
  const GroupState& group = operation.group();
  const bool few = group.group().size() <= few_ranks;  // then all members have been asked
  const auto launched = operation.launched();
  const Ranks asked =
      few ? group.group().members : Ranks(group.ends_of_chains(operation.call().sequence, launched, Clock::now()));
  for (const int member : asked) {
    if (member == rank_) continue;
    const GroupState::Answer* const answer = group.answer_of(member, launched);
    if (answer != nullptr && answer->has_made(operation.call().sequence)) continue;
    std::string state = "?";
    if (answer != nullptr) {
      const CallRecord& last = answer->completed;
      state = last.sequence == 0 ? "" : call_text(last.sequence, last.call);
    }
    const bool exchanges = std::ranges::find(partners, member) != partners.end();
    if (first < 0 || (exchanges && !is_partner)) first = member;
    is_partner = is_partner || exchanges;
    auto same = std::ranges::find(states, state, [](const auto& each) { return each.first; });
    if (same == states.end()) same = states.insert(same, {state, {}});
    same->second.push_back(member);
  }
  std::string text;
  for (auto& [state, who] : states) {
    std::ranges::sort(who);
    const bool one = who.size() == 1;
    const std::string& host = topology()[who.front()].host_name;
    text += (text.empty() ? "" : "; ") + ranks_text(who);
    if (std::ranges::all_of(who, [&](int rank) { return topology()[rank].host_name == host; })) text += " on " + host;
    if (state == "?")
      text +=
          one ? " does not answer (stopped, or its host is gone)" : " do not answer (stopped, or their host is gone)";
    else if (state.empty())
      text += std::string(one ? " has" : " have") + " not made this call, nor completed any on this communicator";
    else
      text += std::string(one ? " has" : " have") + " not made this call; the last " + (one ? "it" : "they") +
              " completed was " + state;
  }
  return text;
}

std::string Context::nobody_lacks(const Operation& operation) const {
  const bool few = operation.group().group().size() <= few_ranks;
  return (few ? "all ranks have made this call but it has not ended; "
              : "no rank is known that has not made this call; ") +
         operation.where();
}

// Called when the deadline has passed.
void Context::expire(Operation& operation) {
  Cause why;
  why.code = Code::timeout;
  why.reporter = rank_;
  why.group = operation.group().group().id;
  const bool collective = operation.call().sequence > 0;
  const std::string missing = collective ? lacking(operation, why.culprit) : std::string();
  const std::string waited = std::to_string(Seconds(operation.until() - operation.launched()).count());
  std::string text = "the deadline passed after " + waited.substr(0, waited.find('.') + 3) + " s: ";
  if (!collective)
    text += operation.where();
  else
    text += missing.empty() ? nobody_lacks(operation) : missing;
  const bool own = operation.until() - operation.launched() != duration_of(Seconds(settings_.timeout));
  why.say(text + (text.ends_with('?') ? " Raise " : ". Raise ") + (own ? "the call's own timeout" : "TUTTI_TIMEOUT") +
          " if the work really takes that long.");
  ask_doctor(why, std::min<Clock::duration>(1s, (operation.until() - operation.launched()) / 2));
  fail(why);
}

}  // namespace tutti
