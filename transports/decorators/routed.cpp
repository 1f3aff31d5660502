// routed: dispatches to one transport per rank.
#include "transports/decorators/routed.hpp"

#include <algorithm>
#include <string>

#include "transports/decorators/any_of.hpp"

namespace tutti {
namespace {

class RoutedTransport final : public Transport {
 public:
  RoutedTransport(int rank, int size, std::vector<std::unique_ptr<Transport>> transports, std::vector<int> route)
      : Transport("routed", rank, size), transports_(std::move(transports)), route_(std::move(route)) {
    if (route_.size() != static_cast<std::size_t>(size))
      throw Error(Code::invalid, "a route names a transport for each of the " + std::to_string(size) +
                                     " ranks, not for " + std::to_string(route_.size()));
    for (const int index : route_)
      if (index < 0 || static_cast<std::size_t>(index) >= transports_.size())
        throw Error(Code::invalid,
                    "a route names transport " + std::to_string(index) + " of " + std::to_string(transports_.size()));
    for (const auto& one : transports_) {
      sleep_.add(one->fds().sleep);
      watch_.add(one->fds().watch);
    }
  }

  void send(int to, const Tag& tag, std::uint64_t call, ConstBytes from, Done done) override {
    via(to).send(to, tag, call, from, std::move(done));
  }
  void recv(int from, const Tag& tag, std::uint64_t call, Bytes into, Done done) override {
    via(from).recv(from, tag, call, into, std::move(done));
  }
  void recv_reduce(int from, const Tag& tag, std::uint64_t call, Bytes into, const std::byte* with, const Fold& fold,
                   Done done) override {
    via(from).recv_reduce(from, tag, call, into, with, fold, std::move(done));
  }
  std::optional<Unmatched> arrived(int from, const Tag& tag) override {
    if (from != any_rank) return via(from).arrived(from, tag);
    for (std::size_t i = 0; i < transports_.size(); ++i) {
      const std::size_t asked = turn_++ % transports_.size();
      if (auto found = transports_[asked]->arrived(from, tag)) return found;
    }
    return std::nullopt;
  }
  bool retract(int from, const Tag& tag, const std::byte* into) override { return via(from).retract(from, tag, into); }
  void control(int to, ConstBytes message) override { via(to).control(to, message); }

  void spread(const Cause& why) noexcept override {
    for (const auto& one : transports_) one->spread(why);
  }
  void cancel(std::uint64_t group, const Status& why) noexcept override {
    for (const auto& one : transports_) one->cancel(group, why);
  }
  bool progress() override {
    bool moved = false;
    for (const auto& one : transports_) moved |= one->progress();
    return moved;
  }

  Fds fds() const noexcept override { return {sleep_.fd(), watch_.fd()}; }
  bool arm(bool on) override {
    for (std::size_t i = 0; i < transports_.size(); ++i) {
      if (transports_[i]->arm(on)) continue;
      if (!on) continue;
      for (std::size_t before = 0; before <= i; ++before) transports_[before]->arm(false);
      return false;
    }
    return true;
  }
  bool polled() const noexcept override {
    return std::ranges::any_of(transports_, [](const auto& one) { return one->polled(); });
  }
  void watch() override {
    for (const auto& one : transports_) one->watch();
  }
  /// The backend of the transport that connects all members, if there is one.
  std::unique_ptr<Backend> make_backend(const Group& group) override {
    Transport* common = nullptr;
    for (const int member : group.members) {
      if (member == rank()) continue;
      if (common != nullptr && common != &via(member)) return nullptr;
      common = &via(member);
    }
    return common == nullptr ? nullptr : common->make_backend(group);
  }
  std::shared_ptr<void> allocate(std::size_t bytes) override {
    std::shared_ptr<void> memory = transports_.front()->allocate(bytes);
    for (std::size_t i = 1; i < transports_.size(); ++i) memory = transports_[i]->adopt(std::move(memory), bytes);
    return memory;
  }
  std::shared_ptr<void> adopt(std::shared_ptr<void> memory, std::size_t bytes) override {
    for (const auto& one : transports_) memory = one->adopt(std::move(memory), bytes);
    return memory;
  }
  std::string describe(int to) const override {
    return transports_[static_cast<std::size_t>(route_[static_cast<std::size_t>(to)])]->describe(to);
  }

 private:
  Transport& via(int peer) { return *transports_[static_cast<std::size_t>(route_[static_cast<std::size_t>(peer)])]; }

  AnyOf sleep_, watch_;  // destroyed after the transports, whose descriptors they contain
  std::vector<std::unique_ptr<Transport>> transports_;
  std::vector<int> route_;
  std::size_t turn_ = 0;  // counts the transports that arrived() has queried for any_rank
};

}  // namespace

std::unique_ptr<Transport> make_routed(int rank, int size, std::vector<std::unique_ptr<Transport>> transports,
                                       std::vector<int> route) {
  return std::make_unique<RoutedTransport>(rank, size, std::move(transports), std::move(route));
}

}  // namespace tutti
