#include "tutti/box_exchange.hpp"

#include <algorithm>

#include "tutti/status.hpp"

namespace tutti {
namespace {

std::int64_t sum_of(const std::vector<BoxPlan::Piece>& pieces) noexcept {
  std::int64_t total = 0;
  for (const BoxPlan::Piece& piece : pieces) total += volume(piece.box);
  return total;
}

/// Calls `row(offset in the box, offset in the part, elements)` for every row of `part`, in row-major order.
template <class Row>
void for_each_row(const Box& box, const Box& part, std::size_t outer, const Row& row) {
  const auto whole = static_cast<std::size_t>(volume(box)), inner = static_cast<std::size_t>(volume(part));
  if (inner == 0) return;
  const std::size_t last = box.size() - 1, length = static_cast<std::size_t>(part[last].size());
  for (std::size_t i = 0; i < outer; ++i) {
    for (std::size_t at = 0; at < inner; at += length) {
      std::size_t rest = at / length, offset = static_cast<std::size_t>(part[last].begin - box[last].begin);
      auto stride = static_cast<std::size_t>(box[last].size());
      for (std::size_t d = last; d-- > 0;) {
        const auto side = static_cast<std::size_t>(part[d].size());
        offset += (rest % side + static_cast<std::size_t>(part[d].begin - box[d].begin)) * stride;
        rest /= side;
        stride *= static_cast<std::size_t>(box[d].size());
      }
      row(i * whole + offset, i * inner + at, length);
    }
  }
}

}  // namespace

std::int64_t BoxPlan::given() const noexcept { return sum_of(gives); }
std::int64_t BoxPlan::taken() const noexcept { return sum_of(takes); }

BoxPlan plan_boxes(std::span<const Box> have, std::span<const Box> want, int rank) {
  const auto me = static_cast<std::size_t>(rank);
  if (have.size() != want.size() || me >= have.size())
    throw Error(Code::invalid, "an exchange of boxes takes one to have and one to want of every rank");
  BoxPlan plan{have[me], want[me], {}, {}, common(have[me], want[me])};
  for (std::size_t peer = 0; peer < have.size(); ++peer) {
    if (peer == me) continue;
    if (Box box = common(have[me], want[peer]); volume(box) > 0)
      plan.gives.push_back({static_cast<int>(peer), std::move(box)});
    if (Box box = common(have[peer], want[me]); volume(box) > 0)
      plan.takes.push_back({static_cast<int>(peer), std::move(box)});
  }
  if (plan.taken() + volume(plan.kept) != volume(plan.want))
    throw Error(Code::invalid, "rank " + std::to_string(rank) + " wants " + to_string(plan.want) +
                                   ", which the ranks' boxes do not cover once each");
  return plan;
}

std::vector<int> direction(const Box& tile, const Box& box) {
  std::vector<int> signs;
  for (std::size_t i = 0; i < tile.size(); ++i)
    signs.push_back(box[i].end <= tile[i].begin ? -1 : box[i].begin >= tile[i].end ? 1 : 0);
  return signs;
}

std::string to_string(const BoxPlan& plan) {
  std::string text = "has " + to_string(plan.have) + ", wants " + to_string(plan.want) + "\n";
  for (const BoxPlan::Piece& piece : plan.gives)
    text += "  gives " + to_string(piece.box) + " to rank " + std::to_string(piece.peer) + "\n";
  for (const BoxPlan::Piece& piece : plan.takes)
    text += "  takes " + to_string(piece.box) + " from rank " + std::to_string(piece.peer) + "\n";
  return text;
}

void pack(const void* from, const Box& box, const Box& part, std::size_t outer, std::size_t width, void* packed) {
  for_each_row(box, part, outer, [&](std::size_t there, std::size_t here, std::size_t count) {
    std::memcpy(static_cast<std::byte*>(packed) + here * width, static_cast<const std::byte*>(from) + there * width,
                count * width);
  });
}

void unpack(const void* packed, const Box& box, const Box& part, std::size_t outer, std::size_t width, void* to) {
  for_each_row(box, part, outer, [&](std::size_t there, std::size_t here, std::size_t count) {
    std::memcpy(static_cast<std::byte*>(to) + there * width, static_cast<const std::byte*>(packed) + here * width,
                count * width);
  });
}

std::vector<std::size_t> BoxExchange::counts(const std::vector<BoxPlan::Piece>& pieces, std::size_t outer) const {
  std::vector<std::size_t> list(static_cast<std::size_t>(communicator_.size()), 0);
  for (const BoxPlan::Piece& piece : pieces)
    list[static_cast<std::size_t>(piece.peer)] = outer * static_cast<std::size_t>(volume(piece.box));
  return list;
}

}  // namespace tutti
