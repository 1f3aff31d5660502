// Groups: communicators of a subset of another communicator's ranks.
//
// In an allgather every rank contributes the function that it called and the arguments. From the result each rank
// computes its group, and detects ranks that called another function. In group() only the listed ranks take part: they
// create the communicator first, and compare their lists in an allgather within it.
#include <algorithm>
#include <array>
#include <cstring>
#include <tuple>
#include <vector>

#include "transports/core/sha256.hpp"
#include "tutti/communicator.hpp"
#include "tutti/topology.hpp"

namespace tutti {
namespace {

constexpr std::array<std::string_view, 8> makers = {"split", "split_by", "subgroup", "dup",
                                                    "node",  "across",   "leaders",  "group"};

std::int64_t number_of(std::string_view maker) { return std::ranges::find(makers, maker) - makers.begin(); }

void check_list(std::string_view maker, std::span<const int> ranks, int size) {
  std::vector<bool> listed(static_cast<std::size_t>(size));
  for (const int rank : ranks) {
    const bool known = rank >= 0 && rank < size;
    if (!known || listed[static_cast<std::size_t>(rank)])
      throw Error(Code::invalid, std::string(maker) + ": rank " + std::to_string(rank) +
                                     " is listed twice or is not one of 0 to " + std::to_string(size - 1));
    listed[static_cast<std::size_t>(rank)] = true;
  }
}

std::array<std::int64_t, 4> digest_of(ConstBytes bytes) {
  const Digest digest = sha256(bytes);
  std::array<std::int64_t, 4> words;
  static_assert(sizeof words == sizeof digest);
  std::memcpy(words.data(), digest.data(), sizeof words);
  return words;
}

}  // namespace

/// One rank's contribution to the allgather: the function that it called, and up to four arguments.
struct Communicator::Word {
  std::int64_t maker = 0;
  std::array<std::int64_t, 4> what = {};
};

std::vector<Communicator::Word> Communicator::gather_words(std::string_view maker, std::array<std::int64_t, 4> what) {
  constexpr std::size_t width = sizeof(Word) / sizeof(std::int64_t);
  const Word mine{number_of(maker), what};
  std::vector<Word> words(static_cast<std::size_t>(size()));
  allgather(ConstBuffer(&mine, width, DType::i64), Buffer(words.data(), width * words.size(), DType::i64)).wait();
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i].maker == mine.maker) continue;
    const auto theirs = static_cast<std::size_t>(words[i].maker);
    throw Error(Code::mismatch,
                "the ranks do not agree: rank " + std::to_string(rank()) + " called " + std::string(maker) +
                    ", but rank " + std::to_string(i) + " called " + std::string(makers.at(theirs)) +
                    ". All ranks must make the same groups in the same order.",
                world_rank(static_cast<int>(i)));
  }
  return words;
}

std::optional<Communicator> Communicator::split(int color, int key) {
  const std::vector<Word> words = gather_words("split", {color, key});
  std::vector<std::tuple<std::int64_t, int>> order;  // (key, rank)
  for (std::size_t i = 0; i < words.size(); ++i)
    if (color >= 0 && words[i].what[0] == color) order.emplace_back(words[i].what[1], static_cast<int>(i));
  std::ranges::sort(order);
  std::vector<int> members;
  for (const auto& [_, member] : order) members.push_back(member);
  return make_group("split", members, std::max(color, -1));
}

Communicator Communicator::split_by(std::string_view key) {
  const std::array<std::int64_t, 4> mine = digest_of(std::as_bytes(std::span(key)));
  const std::vector<Word> words = gather_words("split_by", mine);
  std::vector<int> members;
  for (std::size_t i = 0; i < words.size(); ++i)
    if (words[i].what == mine) members.push_back(static_cast<int>(i));
  return *make_group("split_by", members, members.front());
}

std::optional<Communicator> Communicator::subgroup(std::span<const int> ranks) {
  check_list("subgroup", ranks, size());
  const auto list = digest_of(std::as_bytes(ranks));
  const std::vector<Word> words = gather_words("subgroup", list);
  const auto other = std::ranges::find_if(words, [&](const Word& word) { return word.what != list; });
  if (other != words.end())
    throw Error(Code::mismatch, "subgroup: rank " + std::to_string(other - words.begin()) +
                                    " does not list the same ranks as rank " + std::to_string(rank()) +
                                    "; all ranks must pass one list, also those that are not in it");
  return make_group("subgroup", ranks, 0);
}

Communicator Communicator::group(std::span<const int> ranks, std::string_view name) {
  check_list("group", ranks, size());
  Communicator made = make_own_group(ranks, name);
  try {
    made.gather_words("group", digest_of(std::as_bytes(ranks)));
  } catch (const Error& error) {
    if (error.code() != Code::timeout) throw;
    throw Error(error.code(), "group '" + std::string(name) + "': not all of its members made it: " + error.what(),
                error.culprit());
  }
  made.make_named_backends();
  return made;
}

// Agrees in a group of the listed ranks, which costs no message to make.
Communicator Communicator::shrink(std::span<const int> ranks, std::string_view name) {
  check_list("shrink", ranks, size());
  return make_own_group(ranks, name).shrink();
}

Communicator Communicator::dup() {
  gather_words("dup", {});
  std::vector<int> all;
  for (int i = 0; i < size(); ++i) all.push_back(i);
  return *make_group("dup", all, 0);
}

Communicator Communicator::node() {
  gather_words("node", {});
  const Topology places = topology();
  const int host = places.hosts().host_of(rank());
  return *make_group("node", places.hosts()[host], host);
}

Communicator Communicator::across() {
  gather_words("across", {});
  const Topology places = topology();
  const int index = places.hosts().index_of(rank());
  return *make_group("across", places.hosts().across(index), index);
}

std::optional<Communicator> Communicator::leaders() {
  gather_words("leaders", {});
  return make_group("leaders", topology().hosts().across(0), 0);
}

bool Communicator::is_cartesian() const { return topology().hosts().is_cartesian(); }

}  // namespace tutti
