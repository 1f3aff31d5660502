// TransportConformance: what transports/transport.hpp promises, asked of every provider.
#include <atomic>
#include <numeric>

#include "collectives/bootstrap/stores.hpp"
#include "tests/support/ranks.hpp"
#include "transports/core/collective.hpp"
#include "transports/provider.hpp"

namespace tutti {
namespace {

using testing::Outcome;
using testing::pattern;
using testing::Rank;

constexpr int sizes[] = {1, 2, 3, 4, 5, 8};
constexpr std::size_t byte_counts[] = {0, 1, 7, 4096, 16384, 16385, 1 << 20};

class TransportConformance : public ::testing::TestWithParam<const Provider*> {
 protected:
  void SetUp() override {
    settings_ = Settings{};
    settings_.job = "conformance";
    settings_.secret = "a secret";
    const Viability viability = GetParam()->viable(settings_);
    if (!viability.viable) GTEST_SKIP() << GetParam()->name << " is not viable here: " << viability.reason;
  }

  void run(int size, const std::function<void(Rank&)>& body) {
    SCOPED_TRACE(std::string(GetParam()->name) + ", " + std::to_string(size) + " ranks");
    const auto store = make_local_store();
    testing::run_ranks(
        size, [&](Rank& rank) { return connect(rank, store); }, body);
  }
  void run_all(const std::function<void(Rank&)>& body) {
    for (const int size : sizes) run(size, body);
  }

 private:
  std::unique_ptr<Transport> connect(Rank& rank, const std::shared_ptr<Store>& store) const {
    const auto prefixed = make_prefix_store(store, std::string(GetParam()->name));
    Rendezvous meeting;
    meeting.rank = rank.rank();
    meeting.size = rank.size();
    for (int i = 0; i < rank.size(); ++i)
      if (i != rank.rank()) meeting.peers.push_back(i);
    meeting.store = prefixed.get();
    meeting.settings = &settings_;
    meeting.listener = &rank.listener;
    meeting.until = deadline_in(Seconds(30));
    Connected connected = GetParam()->connect(meeting);
    EXPECT_TRUE(connected.unreached.empty()) << connected.reason;
    return std::move(connected.transport);
  }
  Settings settings_;
};

Tag tag(std::uint32_t sequence, std::uint32_t lane = 0, std::uint64_t group = 1) { return {group, sequence, lane}; }

TEST_P(TransportConformance, carries_every_size_between_every_pair) {
  run_all([](Rank& me) {
    for (const std::size_t bytes : byte_counts) {
      std::vector<std::vector<std::byte>> out, in(static_cast<std::size_t>(me.size()), std::vector<std::byte>(bytes));
      for (int peer = 0; peer < me.size(); ++peer)
        out.push_back(pattern(bytes, static_cast<std::size_t>(me.rank() * 100 + peer)));
      for (int peer = 0; peer < me.size(); ++peer) {
        const auto p = static_cast<std::size_t>(peer);
        me.recv(peer, tag(static_cast<std::uint32_t>(bytes)), in[p]);
        me.send(peer, tag(static_cast<std::uint32_t>(bytes)), out[p]);
      }
      me.finish_all(std::to_string(bytes) + " bytes from everyone");
      for (int peer = 0; peer < me.size(); ++peer)
        EXPECT_EQ(in[static_cast<std::size_t>(peer)], pattern(bytes, static_cast<std::size_t>(peer * 100 + me.rank())))
            << bytes << " bytes from " << peer;
    }
    me.meet("the end");
  });
}

std::vector<const Provider*> all() { return {providers().begin(), providers().end()}; }

INSTANTIATE_TEST_SUITE_P(Providers, TransportConformance, ::testing::ValuesIn(all()),
                         [](const auto& one) { return std::string(one.param->name); });

}  // namespace
}  // namespace tutti
