// A transport that keeps sends and receives until the test completes them.
#pragma once

#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "tutti/provider/transport.hpp"

namespace tutti::testing {

class KeptTransport final : public Transport {
 public:
  using Transport::Transport;
  void send(int, const Tag&, std::uint64_t, ConstBytes, Done done) override { sent.push_back(std::move(done)); }
  void recv(int, const Tag&, std::uint64_t, Bytes into, Done done) override {
    awaited.emplace_back(into, std::move(done));
  }
  void recv_reduce(int, const Tag&, std::uint64_t, Bytes into, const std::byte*, const Fold&, Done done) override {
    awaited.emplace_back(into, std::move(done));
  }
  void control(int, ConstBytes) override {}
  void spread(const Cause&) noexcept override {}
  void cancel(std::uint64_t, const Status&) noexcept override {}
  bool progress() override { return false; }
  Fds fds() const noexcept override { return {}; }
  bool arm(bool) override { return true; }

  /// Completes the oldest receive with `value`.
  void arrives(std::uint64_t value) {
    auto [into, done] = std::move(awaited.front());
    awaited.erase(awaited.begin());
    std::memcpy(into.data(), &value, sizeof value);
    done({});
  }

  std::vector<Done> sent;
  std::vector<std::pair<Bytes, Done>> awaited;
};

}  // namespace tutti::testing
