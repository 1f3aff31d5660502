#include "transports/cudaipc/room.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <mutex>
#include <string>
#include <type_traits>

#include "transports/accelerators.hpp"
#include "transports/core/host.hpp"

namespace tutti::cudaipc {

Letters::Letters(Transport& wire, const Group& group, std::size_t bytes)
    : wire_(wire), group_(group), box_(std::make_shared<Box>()) {
  const auto size = static_cast<std::size_t>(group.size());
  box_->sent.assign(size, std::vector<std::byte>(bytes));
  box_->received = box_->sent;
}

void Letters::exchange(std::uint32_t sequence, std::uint32_t lane, std::uint64_t signature) {
  const Tag tag{group_.id, sequence, lane};
  box_->missing = static_cast<std::size_t>(group_.size() - 1);
  const auto keep_failure = [box = box_](const Status& status) {
    if (!status.ok() && box->failure.ok()) box->failure = status;
  };
  for (std::size_t rank = 0; rank < group_.members.size(); ++rank) {
    if (static_cast<int>(rank) == group_.rank) continue;
    wire_.recv(group_.members[rank], tag, signature, box_->received[rank],
               [box = box_, keep_failure](const Status& status) {
                 keep_failure(status);
                 if (status.ok()) --box->missing;
               });
    wire_.send(group_.members[rank], tag, signature, box_->sent[rank], keep_failure);
  }
}

/// What a rank tells the others before anything is made.
struct Room::Facts {
  std::array<char, 64> gpu{};  // its name
  std::int64_t process = 0;
  std::int64_t shares = 0;
};

/// And then.
struct Room::Card {
  Reference slots;
  std::array<EventHandle, Room::slots * marks> events;
};

namespace {

constexpr char refused = '!';  // before the reason of a rank that has no card to give

Error cannot(const std::string& why) { return Error(Code::unsupported, why); }

// Events that were shared, which a rank that is a little behind may still let its streams wait for: what CUDA makes of
// that once its owner has destroyed one is not defined.
void destroy_later(std::vector<Owned<Event>> events) {
  constexpr std::size_t most = 16;  // rooms
  static std::mutex mutex;
  static auto& waiting = *new std::deque<std::vector<Owned<Event>>>;
  const std::lock_guard lock(mutex);
  waiting.push_back(std::move(events));
  if (waiting.size() > most) waiting.pop_front();
}

Transport& wire_of(const BackendMeeting& meeting) {
  if (meeting.wire == nullptr) throw cannot("cudaipc needs a transport beside it");
  if (meeting.group->hosts() > 1) throw cannot("cudaipc works within one host");
  return *meeting.wire;
}

}  // namespace

template <class T>
std::vector<T> Room::exchanged(const BackendMeeting& meeting, const char* what, const T& own) const {
  static_assert(std::is_trivially_copyable_v<T>);
  const auto key = [what](std::size_t rank) { return what + std::to_string(rank); };
  meeting.store->set(key(static_cast<std::size_t>(rank())), {reinterpret_cast<const char*>(&own), sizeof own});
  std::vector<T> all(group_.members.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::string text = meeting.store->wait(key(i), meeting.until);
    if (!text.empty() && text.front() == refused && text.size() != sizeof(T))
      throw cannot("rank " + std::to_string(group_.members[i]) + ": " + text.substr(1));
    if (text.size() != sizeof(T)) throw Error(Code::protocol, "cudaipc: the ranks have different versions of tutti");
    std::memcpy(&all[i], text.data(), sizeof(T));
  }
  return all;
}

Room::Room(const BackendMeeting& meeting)
    : group_(*meeting.group),
      accelerator_(tutti::accelerator(*meeting.settings)),
      wire_(wire_of(meeting)),
      device_(device_of_rank(accelerator_, meeting.local_rank)),
      shared_(accelerator_) {
  if (size() > 1) agree_to_share(meeting);
  try {
    stream_ = Owned<Stream>(accelerator_, accelerator_.make_stream(device_, true));
    own_slots_ = accelerator_.allocate(device_, slots * slot_bytes);
  } catch (const Error& error) {  // so that the others need not wait for this rank's card
    if (size() > 1) meeting.store->set("card/" + std::to_string(rank()), refused + std::string(error.what()));
    throw;
  }
  events_.resize(group_.members.size());
  for (int rank = 0; rank < size(); ++rank) opened_.emplace_back(accelerator_, device_);
  if (size() == 1) {
    seen_slots_ = {static_cast<std::byte*>(own_slots_.get())};
    for (Event& one : events_[0]) {
      one = accelerator_.make_event(device_);
      kept_.emplace_back(accelerator_, one);
    }
    return;
  }
  open(exchanged(meeting, "card/", own_card()));
}

Room::~Room() { destroy_later(std::move(kept_)); }

// All ranks find the same, or each finds what it is told of itself.
void Room::agree_to_share(const BackendMeeting& meeting) const {
  const auto& devices = accelerator_.devices();
  const DeviceInfo& about = devices.at(static_cast<std::size_t>(device_));
  Facts own;
  about.uuid.copy(own.gpu.data(), own.gpu.size() - 1);
  own.process = ::getpid();
  own.shares = about.shares_memory ? 1 : 0;
  const std::vector<Facts> all = exchanged(meeting, "facts/", own);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::string gpu = all[i].gpu.data(), who = "rank " + std::to_string(group_.members[i]);
    if (all[i].shares == 0) throw cannot("the GPU of " + who + " cannot share memory between processes");
    if (static_cast<int>(i) != rank() && all[i].process == own.process)
      throw cannot(who + " is a thread of this process, which cannot open memory of its own");
    const auto there = std::ranges::find(devices, gpu, &DeviceInfo::uuid);
    const auto number = static_cast<int>(there - devices.begin());
    if (there != devices.end() && number != device_ && !accelerator_.reach(device_, number))
      throw cannot("cuda:" + std::to_string(device_) + " does not reach the memory of cuda:" + std::to_string(number) +
                   ", which " + who + " has");
  }
}

Room::Card Room::own_card() {
  Card own;
  own.slots = shared_.of(own_slots_.get());
  for (std::size_t i = 0; i < own.events.size(); ++i) {
    Event& made = events_[static_cast<std::size_t>(rank())][i];
    made = accelerator_.make_shared_event(device_);
    kept_.emplace_back(accelerator_, made);
    own.events[i] = accelerator_.share(made);
  }
  return own;
}

void Room::open(const std::vector<Card>& cards) {
  for (std::size_t i = 0; i < cards.size(); ++i) {
    const int peer = static_cast<int>(i);
    if (peer == rank()) {
      seen_slots_.push_back(static_cast<std::byte*>(own_slots_.get()));
      continue;
    }
    seen_slots_.push_back(opened(peer).at(cards[i].slots, ~std::uint64_t{0}, 0));
    for (std::size_t e = 0; e < slots * marks; ++e) {
      events_[i][e] = accelerator_.open(cards[i].events[e], device_);
      kept_.emplace_back(accelerator_, events_[i][e]);
    }
  }
}

void Room::record(std::size_t slot, Mark mark) { accelerator_.record(event(rank(), slot, mark), stream()); }

void Room::release_waits() {
  const Owned<Stream> aside(accelerator_, accelerator_.make_stream(device_));
  for (int peer = 0; peer < size(); ++peer)
    if (peer != rank())
      for (const Event& one : events_[static_cast<std::size_t>(peer)]) accelerator_.record(one, *aside);
}

void Room::wait_for_others(std::size_t slot, Mark mark) {
  for (int peer = 0; peer < size(); ++peer)
    if (peer != rank()) accelerator_.wait(stream(), event(peer, slot, mark));
}

}  // namespace tutti::cudaipc
