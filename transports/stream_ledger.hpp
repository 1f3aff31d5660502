// The operations under way in a StreamTransport, and the containers that hold them: all of them
// reuse their memory, so that a message costs no allocation once things are warm.
#pragma once

#include <algorithm>
#include <deque>
#include <utility>
#include <vector>

#include "transports/core/copy.hpp"
#include "transports/stream_frames.hpp"

namespace tutti::stream {

/// First in, first out.
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

/// Whose messages match: the other rank, and the tag.
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

/// A send() that has not ended.
struct Send {
  std::uint64_t id = 0;
  bool live = false;
  Key key;  // peer: to whom
  std::uint64_t call = 0;
  ConstBytes data;
  Done done;
  bool announced = false;   // the header of its rts has been written
  std::uint64_t grant = 0;  // the receiver's number, from its cts
  std::size_t framed = 0;   // bytes that lie in frames
  int unwritten = 0;        // of these frames, those that are not written to their end
  bool put = false;         // into the receiver's memory, past the stream
};

/// A recv() or recv_reduce() that has not ended.
struct Recv {
  std::uint64_t id = 0;
  bool live = false;
  Recv* next = nullptr;
  Key key;  // peer: from whom
  std::uint64_t call = 0;
  Bytes into;
  const std::byte* with = nullptr;  // null: copy instead of folding
  Fold fold;
  Done done;
  bool granted = false;    // its cts is on the way; data may come
  bool offered = false;    // and may be put into `into` directly
  std::size_t begun = 0;   // bytes of `into` whose frames have begun to arrive
  std::size_t landed = 0;  // of these, those that are final

  bool complete() const noexcept { return landed == into.size(); }
  /// Whether so many bytes from `at` on can be the next frame.
  bool lacks(std::size_t at, std::size_t bytes) const noexcept {
    return bytes <= into.size() - begun && at <= into.size() && bytes <= into.size() - at;
  }
};

/// A frame's bytes on their way into a recv. Several frames of one message may be under way at once, by several
/// streams.
struct Landing {
  Recv* recv = nullptr;
  std::size_t at = 0;       // where the next byte goes
  std::byte carry[8] = {};  // the beginning of an element whose rest has not arrived
  std::size_t carried = 0;

  /// So many bytes arrived where they belong.
  void landed(std::size_t bytes) noexcept {
    at += bytes;
    recv->landed += bytes;
  }

  /// The next bytes of the frame: copied, or folded where they lie.
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

/// A message that came, or was announced, before its recv().
struct Arrival {
  std::uint64_t id = 0;
  bool live = false;
  Arrival* next = nullptr;
  Arrival *older = nullptr, *newer = nullptr;  // in Waiting, by the tag alone
  Key key;                                     // peer: from whom
  Frame frame;
  std::vector<std::byte> kept;  // the payload so far, of an eager message or a beginning
  Send* local = nullptr;        // a large message to oneself
  Recv* taker = nullptr;        // a recv() that waits for the rest of the payload

  bool announced() const noexcept { return frame.type == FrameType::rts; }
  bool arrived() const noexcept { return kept.size() == frame.payload(); }
  bool complete() const noexcept { return !announced() && arrived(); }
};

/// Records that are used again. Numbers are never 0, and a number of the past finds nothing.
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
  void each(Function function) {  // which may give() the record it is called with
    for (T& record : slots_)
      if (record.live) function(record);
  }

 private:
  std::deque<T> slots_;
  std::vector<T*> free_;
};

/// Records by key; those with equal keys in the order of push(). Does not own them.
template <class T>
class MatchTable {
 public:
  void push(T& record) {
    if (++count_ > buckets_.size()) grow();
    append(record);
  }
  /// The oldest record with this key, taken out; null when there is none.
  T* pop(const Key& key) noexcept {
    if (count_ == 0) return nullptr;
    Bucket& bucket = at(key);
    T* before = nullptr;
    for (T* record = bucket.head; record; before = record, record = record->next)
      if (record->key == key) return unlink(bucket, before, *record);
    return nullptr;
  }
  /// The oldest record with this key that `wanted` says yes to, taken out; null when there is none.
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

/// Messages that no recv has been posted for, also found by their tag alone. Does not own them.
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
  /// The oldest of `tag` from this rank, or from any_rank.
  const Arrival* oldest(int from, const Tag& tag) const noexcept {
    for (const Arrival* one = lines_[line_number(tag)].oldest; one; one = one->newer)
      if (one->key.tag == tag && (from == any_rank || one->key.peer == from)) return one;
    return nullptr;
  }

 private:
  struct Line {  // of those whose tags have one number
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

/// Credit between this rank and one peer, in bytes.
struct Credit {
  std::size_t ours = 0;        // may still go there
  std::size_t unreturned = 0;  // came from there, and has not been returned
  std::size_t consumed = 0;    // of these, what may be returned
};

/// All operations, and what is about to be reported.
class Ledger {
 public:
  Ledger(int size, const StreamLimits& stream_limits)
      : limits(stream_limits), credits(static_cast<std::size_t>(size), {stream_limits.credit, 0, 0}) {}

  Credit& credit(int peer) noexcept { return credits[static_cast<std::size_t>(peer)]; }

  const StreamLimits limits;
  std::vector<Credit> credits;  // by rank
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
  /// Memory for an eager payload, empty.
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

  /// Runs what is waiting now; each may start operations, and cancel() others.
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
  Fifo<Report> finished_;
  std::vector<std::vector<std::byte>> spare_;
};

}  // namespace tutti::stream
