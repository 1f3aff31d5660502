// Control messages between the ranks of a context, above all those of the watchdog: when a call takes long, its ranks
// are asked which calls they have made. That detects mismatched calls in which all ranks only receive, and lets a
// timeout name the missing rank and its last call.
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
constexpr int few_ranks = 9;  // who are all asked at once
constexpr std::size_t first_asked =
    2;  // of more ranks, in the first question about a call; then twice as many as before
constexpr std::size_t most_early = 64;  // groups that other ranks have made before this rank

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
  std::uint32_t made = 0;  // whether it has made such a call
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
  if (operation.asked != Clock::time_point{} && now - operation.asked < next_question) return;
  operation.asked = now;
  // Near the deadline all are asked, whose answers its error needs.
  const bool last_chance = operation.until() - now < 2 * next_question || operation.group().group().size() <= few_ranks;
  std::size_t left =
      last_chance ? operation.group().group().members.size() : first_asked << std::min(operation.questions++, 20);
  Query query;
  query.sequence = operation.call().sequence;
  query.group = operation.group().group().id;
  query.call = operation.call().call.bits;
  // Ranks ask those that follow them, so that few questions ask of every rank; who has answered is not asked again.
  const Group& group = operation.group().group();
  for (int i = 1; i < group.size() && left > 0; ++i) {
    const int member = group.members[static_cast<std::size_t>((group.rank + i) % group.size())];
    const GroupState::Answer* const answer = operation.group().answer_of(member, operation.launched());
    if (answer != nullptr && answer->has_made(operation.call().sequence)) continue;
    wire().control(member, as_message(query));
    --left;
  }
}

void Context::read_control(int from, ConstBytes message) {
  Query query;
  Reply reply;
  if (parse(message, MessageType::query, query)) return answer(from, message);
  if (parse(message, MessageType::answer, reply)) return note_answer(from, message);
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

// Queues the message; the handler runs without the token.
void Context::deliver_to(const std::shared_ptr<GroupState>& group, int from, ConstBytes message) {
  group->mailbox().put(group->group().rank_of(from), message);
  defer([group] { group->mailbox().run(); });
}

void Context::answer(int from, ConstBytes message) {
  Query query;
  parse(message, MessageType::query, query);
  Reply reply;
  reply.sequence = query.sequence;
  reply.group = query.group;
  if (const auto group = group_of(query.group)) {
    Signature mine;
    const CallRecord completed = group->last_completed();
    reply.completed = completed.sequence;
    reply.completed_call = completed.call.bits;
    reply.call = query.call;  // a call too old to be remembered has been agreed upon
    reply.made =
        group->begun(query.sequence, mine) || static_cast<std::int32_t>(group->last_begun() - query.sequence) >= 0;
    if (group->begun(query.sequence, mine)) reply.call = mine.bits;
  }
  wire().control(from, as_message(reply));
}

void Context::note_answer(int from, ConstBytes message) {
  Reply reply;
  parse(message, MessageType::answer, reply);
  for (const auto& operation : running_) {
    const CallRecord& mine = operation->call();
    if (operation->group().group().id != reply.group || mine.sequence != reply.sequence) continue;
    if (const auto group = group_of(reply.group))
      group->note_answer(from, reply.sequence, reply.made != 0, {reply.completed, {reply.completed_call}});
    if (reply.made == 0 || reply.call == mine.call.bits) return;
    Cause why;
    why.code = Code::mismatch;
    why.culprit = from;
    why.reporter = rank_;
    why.group = reply.group;
    why.say("the ranks do not agree: rank " + std::to_string(rank_) + " made " + call_text(mine.sequence, mine.call) +
            ", but rank " + std::to_string(from) + " made " + call_text(mine.sequence, {reply.call}) +
            ". All ranks must make the same calls in the same order.");
    return fail(why);
  }
}

// Why a call waits for members: "ranks 1-127 on h2 have not made this call", and the last they completed. Members in
// the same state are named together. `first` becomes the first of them.
std::string Context::lacking(const Operation& operation, int& first) const {
  std::vector<std::pair<std::string, std::vector<int>>> states;  // what they last completed; "?": they do not answer
  for (const int member : operation.group().group().members) {
    if (member == rank_) continue;
    const GroupState::Answer* const answer = operation.group().answer_of(member, operation.launched());
    if (answer != nullptr && answer->has_made(operation.call().sequence)) continue;
    std::string state = "?";
    if (answer != nullptr) {
      const CallRecord& last = answer->completed;
      state = last.sequence == 0 ? "" : call_text(last.sequence, last.call);
    }
    if (first < 0) first = member;
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
    text += missing.empty() ? "all ranks have made this call but it has not ended; " + operation.where() : missing;
  const bool own = operation.until() - operation.launched() != duration_of(Seconds(settings_.timeout));
  why.say(text + ". Raise " + (own ? "the call's own timeout" : "TUTTI_TIMEOUT") +
          " if the work really takes that long.");
  fail(why);
}

}  // namespace tutti
