#include "transports/decorators/routed.hpp"

#include <sys/epoll.h>

#include <cerrno>
#include <cstring>

#include "transports/core/descriptor.hpp"

namespace tutti {
namespace {

Descriptor make_epoll() {
  Descriptor epoll(epoll_create1(EPOLL_CLOEXEC));
  if (epoll.fd() < 0) throw Error(Code::resource, std::string("epoll_create1 failed: ") + std::strerror(errno));
  return epoll;
}

void add(const Descriptor& epoll, int fd) {
  if (fd < 0) return;
  epoll_event event{};
  event.events = EPOLLIN;
  if (epoll_ctl(epoll.fd(), EPOLL_CTL_ADD, fd, &event) != 0)
    throw Error(Code::resource, std::string("epoll_ctl failed: ") + std::strerror(errno));
}

class Routed final : public Transport {
 public:
  Routed(int rank, int size, std::vector<std::unique_ptr<Transport>> transports, std::vector<int> route)
      : Transport("routed", rank, size),
        transports_(std::move(transports)),
        sleep_(make_epoll()),
        watch_(make_epoll()) {
    for (const int index : route) route_.push_back(transports_.at(static_cast<std::size_t>(index)).get());
    for (const auto& transport : transports_) {
      add(sleep_, transport->fds().sleep);
      add(watch_, transport->fds().watch);
    }
  }

  void send(int to, const Tag& tag, std::uint64_t call, ConstBytes from, Done done) override {
    of(to).send(to, tag, call, from, std::move(done));
  }
  void recv(int from, const Tag& tag, std::uint64_t call, Bytes into, Done done) override {
    of(from).recv(from, tag, call, into, std::move(done));
  }
  void recv_reduce(int from, const Tag& tag, std::uint64_t call, Bytes into, const std::byte* with, const Fold& fold,
                   Done done) override {
    of(from).recv_reduce(from, tag, call, into, with, fold, std::move(done));
  }
  void control(int to, ConstBytes message) override { of(to).control(to, message); }
  void spread(const Cause& why) noexcept override {
    for (const auto& transport : transports_) transport->spread(why);
  }
  void cancel(std::uint64_t group, const Status& why) noexcept override {
    for (const auto& transport : transports_) transport->cancel(group, why);
  }
  bool progress() override {
    bool moved = false;
    for (const auto& transport : transports_) moved |= transport->progress();
    return moved;
  }
  Fds fds() const noexcept override { return {sleep_.fd(), watch_.fd()}; }
  bool arm(bool on) override {
    bool quiet = true;
    for (const auto& transport : transports_) quiet &= transport->arm(on);
    return quiet;
  }
  std::string describe(int to) const override { return route_[static_cast<std::size_t>(to)]->describe(to); }
  void watch() override {
    for (const auto& transport : transports_) transport->watch();
  }

 private:
  Transport& of(int rank) const { return *route_[static_cast<std::size_t>(rank)]; }

  const std::vector<std::unique_ptr<Transport>> transports_;
  std::vector<Transport*> route_;
  const Descriptor sleep_, watch_;
};

}  // namespace

std::unique_ptr<Transport> make_routed(int rank, int size, std::vector<std::unique_ptr<Transport>> transports,
                                       std::vector<int> route) {
  return std::make_unique<Routed>(rank, size, std::move(transports), std::move(route));
}

}  // namespace tutti
