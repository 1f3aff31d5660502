#include "transports/nccl/comm.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <map>
#include <sstream>
#include <thread>
#include <utility>
#include <vector>

#include "transports/nccl/settings.hpp"
#include "tutti/threads.hpp"

namespace tutti::nccl {
namespace {

using namespace std::chrono_literals;

constexpr auto look_again = 200us;
constexpr Seconds peaceful_end{5.0};
constexpr auto store_slice = 200ms;  // between two checks of `given_up`
constexpr char refused = '!';        // in front of a reason: the first rank cannot create an id

std::string text_of(const UniqueId& id) { return {id.bytes, sizeof id.bytes}; }

// The first rank creates the communicator's id.
UniqueId agreed_id(const Opening& opening, const std::atomic<bool>& given_up) {
  UniqueId id;
  if (opening.group.rank == 0) {
    const Result made = opening.nccl.call.get_unique_id(&id);
    if (made != success) opening.store->set("id", refused + describe(opening.nccl, made, "ncclGetUniqueId"));
    check(opening.nccl, made, "ncclGetUniqueId");
    opening.store->set("id", "=" + text_of(id));
    return id;
  }
  for (std::string text;;) {
    try {
      text = opening.store->wait("id", std::min<Deadline>(opening.until, Clock::now() + store_slice));
    } catch (const Error& error) {
      if (error.code() != Code::timeout || given_up || Clock::now() >= opening.until) throw;
      continue;
    }
    if (text.size() != 1 + sizeof id.bytes || text.front() == refused)
      throw Error(Code::resource, "rank " + std::to_string(opening.group.members.front()) + " could not name NCCL's " +
                                      "communicator: " + text.substr(1));
    text.copy(id.bytes, sizeof id.bytes, 1);
    return id;
  }
}

std::string late(const Opening& opening) {
  return "NCCL " + version_text(opening.nccl.version) + " made no communicator of " +
         std::to_string(opening.group.size()) +
         " ranks in the time of TUTTI_CONNECT_TIMEOUT; see whether all ranks made the call, and what NCCL says with "
         "NCCL_DEBUG=INFO (NCCL_SOCKET_IFNAME names the interface)";
}

}  // namespace

Result Comm::state() const noexcept {
  Result state = success;
  const Result asked = nccl_.call.comm_get_async_error(handle_, &state);
  if (asked != success || state != success) return asked == success ? state : asked;
  // Before 2.27 a call leaves a pending job in thread-local storage until a query like ncclCommCount takes it.
  // Otherwise the exit of the thread, or its next call on another communicator, would use that job.
  int ranks = 0;
  return nccl_.call.comm_count(handle_, &ranks);
}

bool Comm::abort(Seconds patience) noexcept {
  const CommHandle handle = std::exchange(handle_, nullptr);
  if (handle == nullptr) return true;
  // Aborting may wait for the device, or for NCCL's network thread.
  const auto ended = std::make_shared<std::atomic<bool>>(false);
  try {
    const auto end = [&nccl = nccl_, handle, ended] {
      nccl.call.comm_abort(handle);
      *ended = true;
    };
    start_thread("aborts NCCL", end).detach();
  } catch (const std::exception&) {  // no thread could be created: wait here rather than leak it
    nccl_.call.comm_abort(handle);
    return true;
  }
  for (const Deadline until = deadline_in(patience); !*ended; std::this_thread::sleep_for(look_again))
    if (Clock::now() >= until) return false;
  return true;
}

Comm::~Comm() {
  if (handle_ == nullptr) return;
  const Deadline until = deadline_in(peaceful_end);
  Result state = nccl_.call.comm_finalize(handle_);
  while ((state == success || state == in_progress) && (state = this->state()) == in_progress && Clock::now() < until)
    std::this_thread::sleep_for(look_again);
  if (state == success)
    nccl_.call.comm_destroy(std::exchange(handle_, nullptr));
  else
    abort(peaceful_end);
}

std::unique_ptr<Comm> open_comm(const Opening& opening, const std::atomic<bool>& given_up) {
  const UniqueId id = agreed_id(opening, given_up);
  Config config;
  config.blocking = 0;
  CommHandle handle = nullptr;
  Result state = success;
  opening.accelerator.with_current(opening.device, [&] {
    state = opening.nccl.call.comm_init_rank_config(&handle, opening.group.size(), id, opening.group.rank, &config);
  });
  if (handle == nullptr) check(opening.nccl, state == success ? internal_error : state, "ncclCommInitRankConfig");
  auto comm = std::make_unique<Comm>(opening.nccl, handle);
  while ((state = comm->state()) == in_progress && Clock::now() < opening.until && !given_up)
    std::this_thread::sleep_for(look_again);
  if (state == success) return comm;
  const std::string why =
      state == in_progress ? late(opening) : describe(opening.nccl, state, "ncclCommInitRankConfig");
  comm->abort(peaceful_end);
  throw Error(state == in_progress ? Code::timeout : Code::resource, why);
}

namespace {

std::string text_of(const Card& card) { return std::to_string(card.version) + ' ' + card.gpu + ' ' + card.host; }

Card card_from(const std::string& text) {
  Card card;
  std::istringstream(text) >> card.version >> card.gpu >> card.host;
  return card;
}

// NCCL_MULTI_RANK_GPU_ENABLE allows several ranks per GPU; NCCL refuses unsupported cases itself.
bool shared_gpus_allowed(const Settings& settings) {
  const char* const own = std::getenv("NCCL_MULTI_RANK_GPU_ENABLE");
  return settings.of(nccl_shared_gpu) == "on" || (own != nullptr && std::string_view(own) == "1");
}

std::string judged(const BackendMeeting& meeting, const std::vector<Card>& cards) {
  const auto name = [&](std::size_t rank) { return std::to_string(meeting.group->members[rank]); };
  std::map<std::string, std::size_t> owner;
  for (std::size_t rank = 0; rank < cards.size(); ++rank) {
    if (cards[rank].version != cards[0].version)
      return "rank " + name(0) + " has NCCL " + version_text(cards[0].version) + ", but rank " + name(rank) + " has " +
             version_text(cards[rank].version) + "; install one version everywhere, or name it in TUTTI_NCCL_LIBRARY";
    const auto [before, alone] = owner.try_emplace(cards[rank].gpu, rank);
    if (!alone && !shared_gpus_allowed(*meeting.settings))
      return "NCCL takes one rank per GPU, but ranks " + name(before->second) + " and " + name(rank) + " share " +
             cards[rank].gpu + " of " + cards[rank].host +
             "; where this NCCL knows NCCL_MULTI_RANK_GPU_ENABLE=1, that setting allows it (or "
             "TUTTI_NCCL_SHARED_GPU=on, "
             "which lets NCCL decide)";
  }
  return {};
}

}  // namespace

std::string objection(const BackendMeeting& meeting, const Card& own) {
  const auto key = [](int rank) { return "card/" + std::to_string(rank); };
  const int rank = meeting.group->rank, size = meeting.group->size();
  if (rank != 0) {
    meeting.store->set(key(rank), text_of(own));
    return meeting.store->wait("objection", meeting.until).substr(1);
  }
  std::vector<Card> cards{own};
  for (int other = 1; other < size; ++other) {
    cards.push_back(card_from(meeting.store->wait(key(other), meeting.until)));
    meeting.store->erase(key(other));
  }
  const std::string why = judged(meeting, cards);
  meeting.store->set("objection", "=" + why);
  return why;
}

}  // namespace tutti::nccl
