// Box exchange: redistributes an array between ranks that hold parts of it (halo exchange, another partition,
// allgather). A BoxPlan says which boxes a rank sends to which other rank. Each rank computes its plan locally; one
// alltoallv executes it.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tutti/communicator.hpp"
#include "tutti/cut.hpp"

namespace tutti {

/// The sends and receives of one rank. Afterwards every rank has its box `want`. Boxes are in positions of the whole
/// array.
struct BoxPlan {
  struct Piece {
    int peer = 0;
    Box box;
  };
  Box have, want;
  /// gives: boxes to send, takes: boxes to receive; sorted by peer, without empty boxes and without the rank's own part
  std::vector<Piece> gives, takes;
  Box kept;  ///< the part of `want` that this rank already has; may be empty

  std::int64_t given() const noexcept;  ///< elements sent for one array
  std::int64_t taken() const noexcept;  ///< elements received for one array
};

/// The plan of rank `rank`: it sends the parts of have[rank] that other ranks want, and receives the parts of
/// want[rank] from the ranks that have them. All messages go directly, in one round, also those to corners and distant
/// ranks. Local. Throws Error{invalid} unless the boxes of `have` cover want[rank] exactly once.
BoxPlan plan_boxes(std::span<const Box> have, std::span<const Box> want, int rank);

/// The direction from `tile` to `box`, as one sign per dimension: {-1, 0} is north, {1, 1} south-east.
std::vector<int> direction(const Box& tile, const Box& box);

/// The plan as text, one line per box sent or received: "gives [0,4)x[2,7) to rank 1".
std::string to_string(const BoxPlan& plan);

/// pack() copies `part` of the box `box` into the contiguous memory `packed`, for each of `outer` contiguous arrays;
/// unpack() copies it back. `width` is the size of an element in bytes. A row of the last dimension is copied by one
/// memcpy.
void pack(const void* from, const Box& box, const Box& part, std::size_t outer, std::size_t width, void* packed);
void unpack(const void* packed, const Box& box, const Box& part, std::size_t outer, std::size_t width, void* to);

/// Executes one plan on arrays in host memory: `outer` contiguous arrays (samples times channels) of this rank's box.
/// All ranks of the communicator make the same calls in the same order. One thread at a time.
class BoxExchange {
 public:
  BoxExchange(Communicator communicator, std::span<const Box> have, std::span<const Box> want)
      : communicator_(std::move(communicator)), plan_(plan_boxes(have, want, communicator_.rank())) {}

  const BoxPlan& plan() const noexcept { return plan_; }

  /// An exchange in flight. Several may be in flight and are finished in any order.
  template <Element T>
  struct Pending {
    std::shared_ptr<std::vector<T>> sent, received;
    Work work;
    std::size_t outer = 1;
    const T* own = nullptr;  ///< borrowed until finish()
  };

  /// start() sends the parts of `tile` (outer * volume(have) elements) that other ranks want; finish() blocks and fills
  /// `chunk` (outer * volume(want) elements).
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

  /// The adjoint exchange: each value of `chunk` is sent to the rank that holds its position, which adds up the values
  /// in rank order. finish_adjoint() blocks and fills `tile`.
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
