// The operations in flight of a StreamTransport and their containers. The containers reuse their memory, so that a
// message needs no allocation in steady state.
#pragma once

#include <algorithm>
#include <deque>
#include <utility>
#include <vector>

#include "transports/core/copy.hpp"
#include "transports/core/lazy_array.hpp"
#include "transports/stream/frames.hpp"

namespace tutti::stream {

/// A FIFO queue.
template <class T>
class Fifo {
 public:
  bool empty() const noexcept { return head_ == items_.size(); }
  std::size_t size() const noexcept { return items_.size() - head_; }
  T& front() noexcept { return items_[head_]; }
  void push(T item) {
    if (head_ > 64 && head_ * 2 > items_.size()) compact();
    items_.push_back(std::move(item));
  }
  T pop() {
    T item = std::move(items_[head_++]);
    if (empty()) clear();
    return item;
  }
  void clear() noexcept {
    items_.clear();
    head_ = 0;
  }
  template <class Predicate>
  void erase_if(Predicate predicate) {
    compact();
    std::erase_if(items_, predicate);
  }

 private:
  void compact() {
    items_.erase(items_.begin(), items_.begin() + static_cast<std::ptrdiff_t>(head_));
    head_ = 0;
  }
  std::vector<T> items_;
  std::size_t head_ = 0;
};

/// The matching key: the other rank and the tag.
struct Key {
  int peer = -1;
  Tag tag;
  bool operator==(const Key&) const = default;
  std::size_t hash() const noexcept {
    std::uint64_t h = tag.group * 0x9e3779b97f4a7c15u + static_cast<std::uint32_t>(peer);
    h = (h ^ (std::uint64_t{tag.sequence} << 32 | tag.lane)) * 0xbf58476d1ce4e5b9u;
    return static_cast<std::size_t>(h ^ (h >> 29));
  }
};

/// A send() in flight.
struct Send {
  std::uint64_t id = 0;
  bool live = false;
  Key key;  // peer: the destination
  std::uint64_t call = 0;
  ConstBytes data;
  Done done;
  bool announced = false;   // the header of its rts frame has been written
  std::uint64_t grant = 0;  // the receiver's number from its cts frame
  std::size_t framed = 0;   // bytes that are in frames so far
  int unwritten = 0;        // number of these frames that are not fully written
  bool put = false;         // written into the receiver's memory directly, not through the stream
};

/// A recv() or recv_reduce() in flight.
struct Recv {
  std::uint64_t id = 0;
  bool live = false;
  Recv* next = nullptr;
  Key key;  // peer: the source
  std::uint64_t call = 0;
  Bytes into;
  const std::byte* with = nullptr;  // null: copy instead of reducing
  Fold fold;
  Done done;
  bool granted = false;    // its cts frame is queued or sent, so data may arrive
  bool offered = false;    // the peer may write into `into` directly
  std::size_t begun = 0;   // bytes of `into` whose frames have begun to arrive
  std::size_t landed = 0;  // bytes of `into` that are final

  bool complete() const noexcept { return landed == into.size(); }
  /// True if a frame with `bytes` bytes at offset `at` fits into the missing part.
  bool lacks(std::size_t at, std::size_t bytes) const noexcept {
    return bytes <= into.size() - begun && at <= into.size() && bytes <= into.size() - at;
  }
};

/// The position of one incoming frame in a recv. Several frames of a message may arrive at once on different streams.
struct Landing {
  Recv* recv = nullptr;
  std::size_t at = 0;       // offset of the next byte
  std::byte carry[8] = {};  // the first bytes of an element that has not arrived in full
  std::size_t carried = 0;

  /// Counts `bytes` that were received directly into their place.
  void landed(std::size_t bytes) noexcept {
    at += bytes;
    recv->landed += bytes;
  }

  /// Takes the next bytes of the frame: copies them, or reduces them in place.
  void land(ConstBytes got) {
    if (got.empty()) return;
    if (!recv->with) {
      fetch(recv->into.data() + at, got.data(), got.size());
      return landed(got.size());
    }
    const std::size_t width = recv->fold.width();
    if (carried) {
      const std::size_t taken = std::min(width - carried, got.size());
      std::memcpy(carry + carried, got.data(), taken);
      carried += taken;
      got = got.subspan(taken);
      if (carried < width) return;
      fold_next(carry, width);
      carried = 0;
    }
    const std::size_t whole = got.size() / width * width;
    if (whole) fold_next(got.data(), whole);
    carried = got.size() - whole;
    if (carried) std::memcpy(carry, got.data() + whole, carried);
  }

 private:
  void fold_next(const std::byte* from, std::size_t bytes) {
    recv->fold(recv->into.data() + at, recv->with + at, from, bytes);
    landed(bytes);
  }
};

/// An unexpected message: received, or announced, before its recv().
struct Arrival {
  std::uint64_t id = 0;
  bool live = false;
  Arrival* next = nullptr;
  Arrival *older = nullptr, *newer = nullptr;  // links in Waiting, by tag alone
  Key key;                                     // peer: the source
  Frame frame;
  std::vector<std::byte> kept;  // the payload received so far, of an eager message or a beginning
  Send* local = nullptr;        // a large message to this rank itself
  Recv* taker = nullptr;        // a recv() that waits for the rest of the payload

  bool announced() const noexcept { return frame.type == FrameType::rts; }
  bool arrived() const noexcept { return kept.size() == frame.payload(); }
  bool complete() const noexcept { return !announced() && arrived(); }
};

/// A pool of reused records with unique numbers, which are never 0. find() returns null for a released record's number.
template <class T>
class Pool {
 public:
  T& take() {
    if (free_.empty()) {
      T& fresh = slots_.emplace_back();
      fresh.id = slots_.size();
      free_.push_back(&fresh);
    }
    T& record = *free_.back();
    free_.pop_back();
    record.live = true;
    return record;
  }
  void give(T& record) {
    const std::uint64_t id = record.id + (std::uint64_t{1} << 32);
    record = T{};
    record.id = id;
    free_.push_back(&record);
  }
  T* find(std::uint64_t id) noexcept {
    const std::uint64_t index = id & 0xffffffffu;
    if (index == 0 || index > slots_.size()) return nullptr;
    T& record = slots_[index - 1];
    return record.live && record.id == id ? &record : nullptr;
  }
  template <class Function>
  void each(Function function) {  // `function` may give() back the record that it is called with
    for (T& record : slots_)
      if (record.live) function(record);
  }

 private:
  std::deque<T> slots_;
  std::vector<T*> free_;
};

/// Records by key; records with equal keys keep the order of push(). Does not own them.
template <class T>
class MatchTable {
 public:
  void push(T& record) {
    if (++count_ > buckets_.size()) grow();
    append(record);
  }
  /// Removes and returns the oldest record with this key; null if there is none.
  T* pop(const Key& key) noexcept {
    if (count_ == 0) return nullptr;
    Bucket& bucket = at(key);
    T* before = nullptr;
    for (T* record = bucket.head; record; before = record, record = record->next)
      if (record->key == key) return unlink(bucket, before, *record);
    return nullptr;
  }
  /// Removes and returns the oldest record with this key for which `wanted` is true; null if there is none.
  template <class Wanted>
  T* pop_if(const Key& key, Wanted wanted) noexcept {
    Bucket& bucket = at(key);
    T* before = nullptr;
    for (T* record = bucket.head; record; before = record, record = record->next)
      if (record->key == key && wanted(*record)) return unlink(bucket, before, *record);
    return nullptr;
  }
  void erase(T& record) noexcept {
    Bucket& bucket = at(record.key);
    T* before = nullptr;
    for (T* here = bucket.head; here; before = here, here = here->next)
      if (here == &record) return void(unlink(bucket, before, record));
  }

 private:
  struct Bucket {
    T* head = nullptr;
    T* tail = nullptr;
  };
  Bucket& at(const Key& key) noexcept { return buckets_[key.hash() & (buckets_.size() - 1)]; }
  void append(T& record) {
    Bucket& bucket = at(record.key);
    record.next = nullptr;
    (bucket.tail ? bucket.tail->next : bucket.head) = &record;
    bucket.tail = &record;
  }
  T* unlink(Bucket& bucket, T* before, T& record) noexcept {
    (before ? before->next : bucket.head) = record.next;
    if (bucket.tail == &record) bucket.tail = before;
    record.next = nullptr;
    --count_;
    return &record;
  }
  void grow() {
    std::vector<Bucket> old(buckets_.size() * 2);
    old.swap(buckets_);
    for (const Bucket& bucket : old)
      for (T *record = bucket.head, *next = nullptr; record; record = next) {
        next = record->next;
        append(*record);
      }
  }
  std::vector<Bucket> buckets_ = std::vector<Bucket>(64);
  std::size_t count_ = 0;
};

/// The unexpected-message queue: messages without a posted recv, also indexed by tag alone. Does not own them.
class Waiting {
 public:
  void push(Arrival& arrival) {
    by_key_.push(arrival);
    Line& line = line_of(arrival.key.tag);
    arrival.older = line.newest;
    (line.newest ? line.newest->newer : line.oldest) = &arrival;
    line.newest = &arrival;
  }
  Arrival* pop(const Key& key) noexcept {
    Arrival* const found = by_key_.pop(key);
    if (found) step_out(*found);
    return found;
  }
  void erase(Arrival& arrival) noexcept {
    by_key_.erase(arrival);
    step_out(arrival);
  }
  /// The oldest message with `tag` from rank `from`, or from any rank if `from` is any_rank; null if there is none.
  const Arrival* oldest(int from, const Tag& tag) const noexcept {
    for (const Arrival* one = lines_[line_number(tag)].oldest; one; one = one->newer)
      if (one->key.tag == tag && (from == any_rank || one->key.peer == from)) return one;
    return nullptr;
  }

 private:
  struct Line {  // the messages whose tags have the same hash
    Arrival *oldest = nullptr, *newest = nullptr;
  };
  static std::size_t line_number(const Tag& tag) noexcept { return Key{0, tag}.hash() & 255; }
  Line& line_of(const Tag& tag) noexcept { return lines_[line_number(tag)]; }
  void step_out(Arrival& arrival) noexcept {
    Line& line = line_of(arrival.key.tag);
    (arrival.older ? arrival.older->newer : line.oldest) = arrival.newer;
    (arrival.newer ? arrival.newer->older : line.newest) = arrival.older;
    arrival.older = arrival.newer = nullptr;
  }
  MatchTable<Arrival> by_key_;
  std::vector<Line> lines_ = std::vector<Line>(256);
};

/// Flow-control credit between this rank and one peer, in bytes.
struct Credit {
  std::size_t ours = 0;        // what this rank may still send to the peer
  std::size_t unreturned = 0;  // what has arrived from the peer and is not yet returned to it
  std::size_t consumed = 0;    // the part of `unreturned` that may be returned
  bool granted = false;        // true if `ours` is initialised
};

/// All operations in flight, and the completions to be reported.
class Ledger {
 public:
  Ledger(int size, const StreamLimits& stream_limits)
      : limits(stream_limits), credits_(static_cast<std::size_t>(size)) {}

  Credit& credit(int peer) {
    Credit& credit = credits_[static_cast<std::size_t>(peer)];
    if (!std::exchange(credit.granted, true)) credit.ours = limits.credit;
    return credit;
  }
  /// True if half of the peer's credit or more is consumed. It is then returned in a frame of its own.
  bool owes(int to) const noexcept {
    const Credit* const credit = credits_.find(static_cast<std::size_t>(to));
    return credit != nullptr && credit->consumed >= limits.credit / 2;
  }

  const StreamLimits limits;
  Pool<Send> sends;
  Pool<Recv> recvs;
  Pool<Arrival> arrivals;

  template <class Operation>
  void finish(Operation& operation, const Status& status) {
    report(std::move(operation.done), status);
    pool(operation).give(operation);
  }
  void report(Done done, const Status& status) { finished_.push({std::move(done), status}); }

  void drop(Arrival& arrival) {
    if (arrival.kept.capacity() && spare_.size() < 16) spare_.push_back(std::move(arrival.kept));
    arrivals.give(arrival);
  }
  /// An empty buffer with room for an eager payload of `bytes` bytes.
  std::vector<std::byte> buffer(std::size_t bytes) {
    std::vector<std::byte> memory;
    if (!spare_.empty()) {
      memory = std::move(spare_.back());
      spare_.pop_back();
      memory.clear();
    }
    memory.reserve(bytes);
    return memory;
  }

  bool quiet() const noexcept { return finished_.empty(); }

  /// Runs the completions queued so far; each may start operations, and cancel() others. True if there were any.
  bool run() {
    const bool any = !finished_.empty();
    for (std::size_t n = finished_.size(); n > 0 && !finished_.empty(); --n) {
      const Report report = finished_.pop();
      report.done(report.status);
    }
    return any;
  }

 private:
  struct Report {
    Done done;
    Status status;
  };
  Pool<Send>& pool(const Send&) { return sends; }
  Pool<Recv>& pool(const Recv&) { return recvs; }
  LazyArray<Credit> credits_;  // by rank
  Fifo<Report> finished_;
  std::vector<std::vector<std::byte>> spare_;
};

}  // namespace tutti::stream
