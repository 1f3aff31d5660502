// Exchange of boxes between the ranks that hold an array in parts: halos, other cuts, the whole. Who sends which box to
// whom is a plan of pure arithmetic; the messages are one alltoallv, whose counts are zero between all others.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "collectives/api/communicator.hpp"
#include "collectives/mesh/cut.hpp"

namespace tutti {

/// What one rank does so that everyone has the box that it wants. Boxes are in positions of the whole array.
struct BoxPlan {
  struct Piece {
    int peer = 0;
    Box box;
  };
  Box have, want;
  std::vector<Piece> gives, takes;  ///< without its own part; by peer, and nothing empty. Blocks lie in this order.
  Box kept;                         ///< the own part of `want`; a box of no elements where there is none

  std::int64_t given() const noexcept;  ///< elements sent, of one channel of one sample
  std::int64_t taken() const noexcept;
};

/// Rank `rank`'s part: it gives what others want of have[rank], and takes what it wants from whoever has it. Every rank
/// is reached directly, corners too, however far away. Cost: one round; elements: those of the boxes. Throws
/// Error{invalid} where somebody wants what nobody has. The boxes of `have` must not overlap.
BoxPlan plan_boxes(std::span<const Box> have, std::span<const Box> want, int rank);

/// Where `box` lies as seen from `tile`, a sign for each dimension: {-1, 0} is north, {1, 1} south-east.
std::vector<int> direction(const Box& tile, const Box& box);

/// "gives 4 rows ..." for people: a line for each neighbour.
std::string to_string(const BoxPlan& plan);

/// Copies the part `part` of a box of `outer` arrays, laid out densely, into `packed`, or back. `width` is the bytes of
/// an element; a row of the last dimension is copied at once.
void pack(const void* from, const Box& box, const Box& part, std::size_t outer, std::size_t width, void* packed);
void unpack(const void* packed, const Box& box, const Box& part, std::size_t outer, std::size_t width, void* to);

/// The exchange of one plan, for arrays in host memory: `outer` arrays (samples times channels) of the box that this
/// rank has, one after the other, the last dimension dense. All ranks of the communicator call alike. Threads: one.
class BoxExchange {
 public:
  BoxExchange(Communicator communicator, std::span<const Box> have, std::span<const Box> want)
      : communicator_(std::move(communicator)), plan_(plan_boxes(have, want, communicator_.rank())) {}

  const BoxPlan& plan() const noexcept { return plan_; }

  /// What is on its way. Several may be, finished in any order.
  template <Element T>
  struct Pending {
    std::shared_ptr<std::vector<T>> sent, received;
    Work work;
    std::size_t outer = 1;
    const T* own = nullptr;  ///< borrowed until finish()
  };

  /// Sends what others want of `tile` (outer * volume(have) elements). finish() fills `chunk` (outer * volume(want)).
  template <Element T>
  Pending<T> start(const T* tile, std::size_t outer) {
    return begin(tile, plan_.have, plan_.gives, plan_.takes, outer);
  }
  template <Element T>
  void finish(Pending<T> pending, T* chunk) {
    pending.work.wait();
    std::vector<T> own(pending.outer * static_cast<std::size_t>(volume(plan_.kept)));
    pack(pending.own, plan_.have, plan_.kept, pending.outer, sizeof(T), own.data());
    unpack(own.data(), plan_.want, plan_.kept, pending.outer, sizeof(T), chunk);
    const T* from = pending.received->data();
    for (const BoxPlan::Piece& piece : plan_.takes) {
      unpack(from, plan_.want, piece.box, pending.outer, sizeof(T), chunk);
      from += pending.outer * static_cast<std::size_t>(volume(piece.box));
    }
  }

  /// The adjoint: every value of `chunk` goes back to whoever has its position, which adds up what comes, in the order
  /// of ranks. finish_adjoint() fills `tile`.
  template <Element T>
  Pending<T> start_adjoint(const T* chunk, std::size_t outer) {
    return begin(chunk, plan_.want, plan_.takes, plan_.gives, outer);
  }
  template <Element T>
  void finish_adjoint(Pending<T> pending, T* tile) {
    pending.work.wait();
    std::fill_n(tile, pending.outer * static_cast<std::size_t>(volume(plan_.have)), T(0));
    bool is_own_added = false;
    const T* from = pending.received->data();
    const auto own = [&] {
      std::vector<T> values(pending.outer * static_cast<std::size_t>(volume(plan_.kept)));
      pack(pending.own, plan_.want, plan_.kept, pending.outer, sizeof(T), values.data());
      add(values.data(), plan_.kept, pending.outer, tile);
      is_own_added = true;
    };
    for (const BoxPlan::Piece& piece : plan_.gives) {
      if (!is_own_added && piece.peer > communicator_.rank()) own();
      add(from, piece.box, pending.outer, tile);
      from += pending.outer * static_cast<std::size_t>(volume(piece.box));
    }
    if (!is_own_added) own();
  }

 private:
  template <Element T>
  Pending<T> begin(const T* values, const Box& box, const std::vector<BoxPlan::Piece>& gives,
                   const std::vector<BoxPlan::Piece>& takes, std::size_t outer) {
    Pending<T> pending{std::make_shared<std::vector<T>>(), std::make_shared<std::vector<T>>(), Work(), outer, values};
    const std::vector<std::size_t> sends = counts(gives, outer), gets = counts(takes, outer);
    for (const BoxPlan::Piece& piece : gives) {
      const std::size_t at = pending.sent->size();
      pending.sent->resize(at + outer * static_cast<std::size_t>(volume(piece.box)));
      pack(values, box, piece.box, outer, sizeof(T), pending.sent->data() + at);
    }
    std::size_t total = 0;
    for (const std::size_t count : gets) total += count;
    pending.received->resize(total);
    pending.work = communicator_.alltoallv(*pending.sent, sends, *pending.received, gets, {.algorithm = "linear"});
    return pending;
  }
  template <Element T>
  void add(const T* values, const Box& box, std::size_t outer, T* tile) const {
    std::vector<T> there(outer * static_cast<std::size_t>(volume(box)));
    pack(tile, plan_.have, box, outer, sizeof(T), there.data());
    for (std::size_t i = 0; i < there.size(); ++i) there[i] = there[i] + values[i];
    unpack(there.data(), plan_.have, box, outer, sizeof(T), tile);
  }
  std::vector<std::size_t> counts(const std::vector<BoxPlan::Piece>& pieces, std::size_t outer) const;

  Communicator communicator_;
  BoxPlan plan_;
};

}  // namespace tutti
