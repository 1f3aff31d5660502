#include "engine/server/submaster_exchange.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "collectives/parameter_server/elements.hpp"
#include "engine/server/master_rules.hpp"

namespace tutti::engine {
namespace {

// Seconds of grace, practically infinite: the round waits for every live worker, even if workers that pushed have died.
constexpr double for_years = 1e8;

const char* const end_name = "end";

Buffer buffer(std::vector<std::byte>& bytes, const BufferSpec& of) { return {bytes.data(), of.count, of.dtype}; }
ConstBuffer read_only(const std::vector<std::byte>& bytes, const BufferSpec& of) {
  return {bytes.data(), of.count, of.dtype};
}

/// out = body(a, b), element by element.
template <class Body>
void combine(const BufferSpec& of, std::vector<std::byte>& out, const std::vector<std::byte>& a,
             const std::vector<std::byte>& b, const Body& body) {
  with_elements(of.dtype, [&]<class T>(T*) {
    using Wide = WideOf<T>;
    auto* const made = reinterpret_cast<T*>(out.data());
    const auto *const first = reinterpret_cast<const T*>(a.data()), *const second =
                                                                        reinterpret_cast<const T*>(b.data());
    for (std::size_t i = 0; i < of.count; ++i)
      made[i] = static_cast<T>(static_cast<Wide>(body(static_cast<Wide>(first[i]), static_cast<Wide>(second[i]))));
  });
}

/// The rule of a round of all members. It answers with the smallest number that a live member has pushed.
ServerRule end_rule(std::shared_ptr<TopMembers> members) {
  return {.apply =
              [members](const ShardView&, std::span<const Pushed> pushed) {
                double first = std::numeric_limits<double>::infinity();
                for (const Pushed& one : pushed)
                  if (!members->is_lost(one.meta.worker)) first = std::min(first, *elements<double>(one.data));
                for (const Pushed& one : pushed)
                  if (one.answer.count > 0) *elements<double>(one.answer) = first;
              },
          .answers = true,
          .quorum = std::numeric_limits<int>::max(),
          .grace = for_years,
          .parted = [members](int rank, Parting how, std::uint64_t /*waiting*/) { members->parted(rank, how); }};
}

}  // namespace

void GroupProgress::updated() {
  {
    const std::lock_guard lock(mutex_);
    ++updates_;
  }
  changed_.notify_all();
}

void GroupProgress::over(int rank) {
  {
    const std::lock_guard lock(mutex_);
    open_.erase(rank);
  }
  changed_.notify_all();
}

GroupProgress::Seen GroupProgress::wait(std::uint64_t updates) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return updates_ >= updates || open_.empty(); });
  return {updates_, open_.empty()};
}

ServerRule with_progress(ServerRule rule, std::shared_ptr<GroupProgress> progress) {
  rule.apply = [apply = std::move(rule.apply), progress](const ShardView& shard, std::span<const Pushed> pushed) {
    apply(shard, pushed);
    progress->updated();
  };
  rule.parted = [parted = std::move(rule.parted), progress](int rank, Parting how, std::uint64_t waiting) {
    if (!progress->has(rank)) return;
    if (parted) parted(rank, how, waiting);
    progress->over(rank);
  };
  return rule;
}

ServerRule over_rule(std::shared_ptr<GroupProgress> progress) {
  return {.apply =
              [progress = std::move(progress)](const ShardView&, std::span<const Pushed> pushed) {
                for (const Pushed& one : pushed) progress->over(one.meta.worker);
              },
          .takes_data = false};
}

std::string over_rule_name() { return "over"; }

void TopMembers::parted(int rank, Parting how) {
  {
    const std::lock_guard lock(mutex_);
    if (there_ > 0) --there_;
    if (how != Parting::left) lost_.insert(rank);
    if (how != Parting::left && fallen_ < 0 && submasters_.contains(rank)) {
      fallen_ = rank;
      how_ = how;
    }
  }
  changed_.notify_all();
}

bool TopMembers::is_lost(int rank) {
  const std::lock_guard lock(mutex_);
  return lost_.contains(rank);
}

void TopMembers::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return there_ == 0 || fallen_ >= 0; });
  if (fallen_ < 0) return;
  throw Error(Code::peer_lost,
              "rank " + std::to_string(fallen_) + ", which kept the parameters of a group, " +
                  (how_ == Parting::died ? "has died" : "is silent"),
              fallen_);
}

ServerRules top_rules(const SubmasterNumbers& numbers, std::size_t parts, std::shared_ptr<TopMembers> members) {
  ServerRules rules{{first_rule_name(), first_rule()}, {end_name, end_rule(std::move(members))}};
  for (std::size_t i = 0; i < parts; ++i)
    rules.emplace(step_rule_name(i), numbers.kind == SubmasterNumbers::Kind::elastic ? elastic_rule() : delta_rule({}));
  return rules;
}

TopConnection::TopConnection(std::shared_ptr<ParameterServer> top, int worker)
    : top_(std::move(top)), worker_(worker), end_(top_->open(end_name, 1, DType::f64)) {}

Parameters TopConnection::open(std::size_t part, std::size_t count, DType dtype) const {
  return top_->open(centre_name(part), count, dtype, {.counts = false});
}

int TopConnection::end() {
  if (told_ >= 0) return told_;
  double first = 0;
  end_.push_pull(end_name, ConstBuffer(&worker_, 1, DType::f64), Buffer(&first, 1, DType::f64)).wait();
  return told_ = static_cast<int>(first);
}

SubmasterExchange::SubmasterExchange(const SubmasterNumbers& numbers, Place place, const std::vector<BufferSpec>& parts)
    : numbers_(numbers), place_(std::move(place)), end_(place_.top->open(end_name, 1, DType::f64)) {
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::vector<std::byte> room(parts[i].count * size_of(parts[i].dtype));
    parts_.push_back({.top = place_.top->open(centre_name(i), parts[i].count, parts[i].dtype),
                      .group = place_.group->open(centre_name(i), parts[i].count, parts[i].dtype, {.counts = false}),
                      .of = parts[i],
                      .base = room,
                      .here = room,
                      .there = room,
                      .change = room});
  }
}

void SubmasterExchange::bring(const std::vector<ConstBuffer>& values) {
  for (std::size_t i = 0; i < parts_.size(); ++i) parts_[i].top.push(first_rule_name(), values.at(i)).wait();
}

void SubmasterExchange::begin() {
  for (Part& part : parts_) {
    const Request pulled = part.top.pull(buffer(part.base, part.of));
    pulled.wait();
    part.seen = pulled.version();
    part.group.push(first_rule_name(), read_only(part.base, part.of)).wait();
  }
}

void SubmasterExchange::exchange() {
  for (std::size_t i = 0; i < parts_.size(); ++i) exchange(parts_[i], step_rule_name(i));
  ++report_.exchanges;
}

void SubmasterExchange::exchange(Part& part, const std::string& rule) {
  const bool is_elastic = numbers_.kind == SubmasterNumbers::Kind::elastic;
  part.group.pull(buffer(part.here, part.of)).wait();
  if (!is_elastic) combine(part.of, part.change, part.base, part.here, [](auto b, auto c) { return b - c; });
  const Request pushed =
      part.top.push_pull(rule, read_only(is_elastic ? part.here : part.change, part.of), buffer(part.there, part.of),
                         {.meta = {.factor = is_elastic ? numbers_.elastic : numbers_.rate}});
  pushed.wait();
  note(part, pushed);
  if (is_elastic) {  // the answer `there` is the change d
    const PushOptions back{.meta = {.factor = -numbers_.elastic_here / numbers_.elastic}};
    part.group.push("scaled_add", read_only(part.there, part.of), back).wait();
    return;
  }
  combine(part.of, part.change, part.there, part.here, [](auto top, auto c) { return top - c; });
  part.group.push("add", read_only(part.change, part.of)).wait();
  std::swap(part.base, part.there);
}

void SubmasterExchange::note(Part& part, const Request& pushed) {
  const std::uint64_t version = pushed.version();
  if (version > part.seen) ++report_.staleness[version - part.seen - 1];
  part.seen = std::max(version, part.seen);
  report_.sent += part.change.size();
  report_.got += part.there.size();
}

void SubmasterExchange::run() {
  std::uint64_t done = 0;
  while (true) {
    const GroupProgress::Seen seen = place_.progress->wait(done + numbers_.every);
    exchange();
    done = seen.updates;
    if (seen.is_over) break;
  }
  end_.free();
}

}  // namespace tutti::engine
