#include "transports/cudaipc/room.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <type_traits>

#include "transports/accelerators.hpp"
#include "transports/core/deferred_release.hpp"
#include "transports/core/for_ever.hpp"

namespace tutti::cudaipc {

PeerMessages::PeerMessages(Transport& wire, const Group& group, std::size_t bytes)
    : wire_(wire), group_(group), box_(std::make_shared<Box>()) {
  const auto size = static_cast<std::size_t>(group.size());
  box_->sent.assign(size, std::vector<std::byte>(bytes));
  box_->received = box_->sent;
}

void PeerMessages::exchange(std::uint32_t sequence, std::uint32_t lane, std::uint64_t signature) {
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

/// What a rank publishes before the room is made.
struct Room::Facts {
  std::array<char, 64> gpu{};  // the GPU's UUID
  std::int64_t process = 0;
  std::uint64_t name = 0;  // name_of_this_process()
  std::int64_t shares = 0;
  Board::Place board;  // of the first rank
};

namespace {

constexpr Seconds patience{0.5};           // time limit of the destructor, for ranks that still read slots
constexpr char here = '=', refused = '!';  // begins what a rank publishes: its data, or the reason of its failure

Error cannot(const std::string& why) { return Error(Code::unsupported, why); }

Transport& wire_of(const BackendMeeting& meeting) {
  if (meeting.wire == nullptr) throw cannot("cudaipc needs a transport beside it");
  if (meeting.group->hosts() > 1) throw cannot("cudaipc works within one host");
  if (meeting.group->members.size() > DeviceWork::most_folded)
    throw cannot("cudaipc folds what " + std::to_string(DeviceWork::most_folded) + " ranks have at most");
  return *meeting.wire;
}

}  // namespace

template <class T>
std::vector<T> Room::exchanged(const BackendMeeting& meeting, const char* what, const T& own) const {
  static_assert(std::is_trivially_copyable_v<T>);
  std::vector<Awaited> keys;
  for (int other = 0; other < size(); ++other)
    keys.push_back({what + std::to_string(other), departure_key(group_.members[static_cast<std::size_t>(other)])});
  const std::vector<std::string> texts = meeting.store->set_and_wait(
      keys[static_cast<std::size_t>(rank())].key, here + std::string(reinterpret_cast<const char*>(&own), sizeof own),
      keys, meeting.until);
  std::vector<T> all(group_.members.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::string& text = texts[i];
    if (text.starts_with(refused)) throw cannot("rank " + std::to_string(group_.members[i]) + ": " + text.substr(1));
    if (text.size() != 1 + sizeof(T))
      throw Error(Code::protocol, "cudaipc: the ranks have different versions of tutti");
    std::memcpy(&all[i], text.data() + 1, sizeof(T));
  }
  return all;
}

Room::Room(const BackendMeeting& meeting)
    : group_(*meeting.group),
      accelerator_(tutti::accelerator(*meeting.settings)),
      wire_(wire_of(meeting)),
      device_(device_of_rank(accelerator_, meeting.local_rank)),
      shared_(accelerator_),
      mappings_(Mappings::of(accelerator_, device_)) {
  Reference own;
  try {
    if (rank() == 0) board_ = Board::make(size());
    if (size() > 1) agree_to_share(meeting);
    stream_ = Owned<Stream>(accelerator_, accelerator_.make_stream(device_, true));
    own_slots_ = accelerator_.allocate(device_, slots * slot_bytes);
    if (size() > 1) own = shared_.of(own_slots_.get());
  } catch (const std::exception& error) {  // publishes it, so that other ranks need not wait
    if (size() > 1)
      for (const char* const what : {"facts/", "card/"})
        meeting.store->set(what + std::to_string(rank()), refused + std::string(error.what()));
    throw;
  }
  if (size() == 1)
    seen_slots_ = {static_cast<std::byte*>(own_slots_.get())};
  else
    open(exchanged(meeting, "card/", own), meeting.until);
  mappings_.enter();
}

// A process that has exited uses no memory. A rank that has failed notes on the board that it is quiet.
bool Room::is_quiet(int peer) const noexcept {
  return peer == rank() || board_.is_quiet(peer) || !processes_[static_cast<std::size_t>(peer)]->lives();
}

bool Room::all_quiet() const noexcept {
  for (int peer = 0; peer < size(); ++peer)
    if (!is_quiet(peer)) return false;
  return true;
}

bool Room::left_alone() const noexcept {
  for (int peer = 0; peer < size(); ++peer)
    if (board_.read_by(peer) < pieces_ && !is_quiet(peer)) return false;
  return true;
}

Room::~Room() {
  const Deadline until = deadline_in(patience);
  while (!left_alone() && Clock::now() < until) std::this_thread::sleep_for(std::chrono::microseconds(50));
  if (left_alone())
    deferred_release(std::move(own_slots_));
  else
    keep_for_ever(std::move(own_slots_));
  mappings_.leave();
}

// Throws if this rank finds a problem; the constructor then publishes the reason to the other ranks.
void Room::agree_to_share(const BackendMeeting& meeting) {
  const auto& devices = accelerator_.devices();
  const DeviceInfo& about = devices.at(static_cast<std::size_t>(device_));
  Facts own;
  about.uuid.copy(own.gpu.data(), own.gpu.size() - 1);
  own.process = ::getpid();
  own.name = name_of_this_process();
  own.shares = about.shares_memory ? 1 : 0;
  if (rank() == 0) own.board = board_.place();
  const std::vector<Facts> all = exchanged(meeting, "facts/", own);
  if (rank() != 0) board_ = Board::open(all.front().board, size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    processes_.push_back(Process::of(static_cast<pid_t>(all[i].process)));
    names_.push_back(all[i].name);
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

// Tries until `until`, because an older mapping at the same addresses may have to be closed first.
void Room::open(const std::vector<Reference>& slots_of, Deadline until) {
  for (std::size_t peer = 0; peer < slots_of.size(); ++peer) {
    if (static_cast<int>(peer) == rank()) {
      seen_slots_.push_back(static_cast<std::byte*>(own_slots_.get()));
      continue;
    }
    std::shared_ptr<const Mapping> mapping;
    while (!(mapping = mappings_.open(names_[peer], slots_of[peer], Mappings::Then::close))) {
      if (Clock::now() >= until)
        throw cannot("other memory of rank " + std::to_string(group_.members[peer]) + " is in use");
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
    seen_slots_.push_back(mapping->at(slots_of[peer]));
    others_slots_.push_back(std::move(mapping));
  }
}

}  // namespace tutti::cudaipc
