// Processes outside the job join its parameter server as workers while it runs.
#include <gmock/gmock.h>
#include <signal.h>

#include <future>
#include <string>
#include <vector>

#include "collectives/bootstrap/served_store.hpp"
#include "tests/support/caught.hpp"
#include "tests/support/joined.hpp"
#include "tests/support/processes.hpp"
#include "tests/support/worlds.hpp"
#include "tutti.hpp"
#include "tutti/parameter_server.hpp"
#include "tutti/store.hpp"

namespace tutti::testing {
namespace {

using ::testing::HasSubstr;

constexpr int size = 3;  // ranks 0 and 1 are servers, rank 2 is a worker

/// Sets all values to the number of pushes in the round. A round waits for all workers.
ServerRule rounds_of_all() {
  return {.apply =
              [](const ShardView& shard, std::span<const Pushed> pushed) {
                for (std::size_t i = 0; i < shard.values.count; ++i)
                  reinterpret_cast<float*>(shard.values.data)[i] = static_cast<float>(pushed.size());
              },
          .quorum = 1000};
}

class ServerJoins : public ::testing::TestWithParam<const char*> {
 protected:
  Communicator join(int rank) const {
    return Communicator::connect(bootstrap_in(folder_.path(), rank, size, GetParam()));
  }
  Settings settings() const { return bootstrap_in(folder_.path(), 0, size, GetParam()).settings; }
  std::shared_ptr<Store> store() const { return make_file_store(folder_.path() + "/told"); }

  ParameterServer::Options options(int joins) const {
    return {.servers = {0, 1}, .workers = {2}, .rules = {{"all", rounds_of_all()}}, .joins = joins};
  }
  /// Runs a server on this rank.
  std::string serve(int rank, int joins) const {
    Communicator world = join(rank);
    ParameterServer server(world, options(joins));
    store()->set("address/" + std::to_string(rank), server.address());
    server.serve();
    return "";
  }
  std::vector<std::string> addresses() const {
    std::vector<std::string> found;
    for (const char* const rank : {"0", "1"}) found.push_back(store()->wait("address/" + std::string(rank), never));
    return found;
  }
  TemporaryFolder folder_;
};

TEST_P(ServerJoins, ANewcomerTakesPartInTheNextRound) {
  Fleet fleet(size + 1, [&](int rank) -> std::string {
    if (rank < 2) return serve(rank, 1);
    std::vector<float> data(10, 1), got(10);
    if (rank == 3) {
      store()->wait("rounds", never);  // joins after ten rounds
      ParameterServer late(addresses(), {}, settings());
      if (late.workers() != std::vector{3} || late.servers().size() != 2) return "its number";
      Parameters w = late.open("w", 10, DType::f32);
      w.pull(got).wait();
      if (got != std::vector<float>(10, 1)) return "it begins with what the servers have";
      store()->set("open", "");
      for (int round = 0; round < 50; ++round) {
        w.push_pull("all", data, got).wait();
        if (got != std::vector<float>(10, 2)) return "a round of two, as it sees it";
      }
      return "";
    }
    Communicator world = join(rank);
    ParameterServer server(world, options(1));
    Parameters w = server.open("w", 10, DType::f32);
    for (int round = 0; round < 10; ++round) w.push_pull("all", data, got).wait();
    if (got != std::vector<float>(10, 1)) return "rounds of one";
    store()->set("rounds", "");
    store()->wait("open", never);
    for (int round = 0; round < 50; ++round) {
      w.push_pull("all", data, got).wait();
      if (got != std::vector<float>(10, 2)) return "a round of two";
    }
    w.push_pull("all", data, got).wait();
    return got == std::vector<float>(10, 1) ? "" : "again a round of one";
  });
  for (int rank = 0; rank < size + 1; ++rank) EXPECT_EQ(fleet.answer(rank), "") << "rank " << rank;
}

TEST_P(ServerJoins, ItsDeathIsItsOwnAffair) {
  Fleet fleet(size + 1, [&](int rank) -> std::string {
    if (rank < 2) return serve(rank, 2);
    std::vector<float> data(100'000, 1), got(100'000);
    if (rank == 3) {
      ParameterServer late(addresses(), {}, settings());
      Parameters w = late.open("w", data.size(), DType::f32);
      w.push("add", data).wait();
      store()->set("pushed", "");
      const Request under_way = w.push("add", data);
      ::raise(SIGKILL);
    }
    Communicator world = join(rank);
    ParameterServer server(world, options(2));
    Parameters w = server.open("w", data.size(), DType::f32);
    store()->wait("pushed", never);
    for (int round = 0; round < 20; ++round) w.push("add", data).wait();
    ParameterServer late(addresses(), {}, settings());  // another newcomer, in rank 2's process
    if (late.workers() != std::vector{4}) return "its number";
    late.open("w", data.size(), DType::f32).pull(got).wait();
    for (const float one : got)
      if (one != 21 && one != 22) return "the sum: " + std::to_string(one);  // 22 if the push in flight was applied
    return "";
  });
  for (int rank = 0; rank < size + 1; ++rank)
    EXPECT_EQ(fleet.answer(rank), rank == 3 ? "killed by signal 9" : "") << "rank " << rank;
}

// Each push adds 1 to all values, so in a consistent dump both servers have the same value.
TEST_P(ServerJoins, DumpsHaveTheSameOfItAtAllServers) {
  Fleet fleet(size + 1, [&](int rank) -> std::string {
    if (rank < 2) return serve(rank, 20);
    std::vector<float> data(10, 1), got(10);
    if (rank == 3) {
      for (int i = 0; i < 20; ++i) {
        ParameterServer late(addresses(), {}, settings());
        Parameters w = late.open("w", 10, DType::f32);
        for (int round = 0; round < 20; ++round) (void)w.push("add", data);
        w.pull(got).wait();
        if (got != std::vector<float>(10, static_cast<float>(20 * i + 20))) return "a push is lost";
      }
      store()->set("over", "");
      return "";
    }
    Communicator world = join(rank);
    ParameterServer server(world, options(20));
    Parameters w = server.open("w", 10, DType::f32);
    std::vector<std::byte> dump;
    std::string over;
    std::vector<std::vector<std::byte>> dumps;
    while (!store()->find("over", over)) dumps.push_back(server.dump());
    for (std::size_t i = 0; i < dumps.size(); i += 1 + dumps.size() / 20) {
      server.load(dumps[i]);
      server.open("w", 10, DType::f32).pull(got).wait();
      for (const float one : got)
        if (one != got[0]) return "servers differ: " + std::to_string(one) + ", " + std::to_string(got[0]);
    }
    return dumps.size() > 3 ? "" : "there were few dumps";
  });
  for (int rank = 0; rank < size + 1; ++rank) EXPECT_EQ(fleet.answer(rank), "") << "rank " << rank;
}

TEST_P(ServerJoins, WhoCannotJoinIsToldWhy) {
  std::promise<std::string> told;
  std::vector<std::string> known;
  run_ranks(2, test_settings(GetParam()), [&](Communicator& world) {
    ParameterServer server(world, {.servers = {0}, .workers = {1}, .joins = 1});
    if (world.rank() == 0) return told.set_value(server.address());
    known = {told.get_future().get()};
    ParameterServer first(known, {}, test_settings(GetParam()));
    const Error error = caught([&] { ParameterServer second(known, {}, test_settings(GetParam())); });
    EXPECT_EQ(error.code(), Code::invalid);
    EXPECT_THAT(error.what(), HasSubstr("all 1 workers that may join have done so"));
  });
  const Error error = caught([&] { ParameterServer late(known, {}, test_settings(GetParam())); });
  EXPECT_EQ(error.code(), Code::peer_lost);
  EXPECT_THAT(error.what(), HasSubstr("what was to be joined has ended"));
}

// A false newcomer claims another's number. The server refuses it before it lets the next newcomer in.
TEST_P(ServerJoins, ANumberThatIsTakenStaysWithItsWorker) {
  std::promise<std::string> told;
  Settings settings = test_settings(GetParam());
  settings.connect_timeout = 3;  // how long the server waits for the false one
  run_ranks(2, settings, [&](Communicator& world) {
    ParameterServer server(world, {.servers = {0}, .workers = {1}, .joins = 3});
    if (world.rank() == 0) return told.set_value(server.address());
    const std::string address = told.get_future().get();
    ParameterServer first({address}, {}, settings);
    Parameters w = first.open("w", 10, DType::f32);

    const launchers::StoreCard card = launchers::parse_store_card(address);
    std::string place;
    const std::shared_ptr<Store> door =
        launchers::connect_any(card.endpoints, card.secret, deadline_in(Seconds(50)), place);
    door->set("newcomer/" + std::to_string(door->add("newcomers", 1) - 1), std::to_string(first.workers().front()));

    settings.connect_timeout = 50;
    const ParameterServer second({address}, {}, settings);
    EXPECT_NE(second.workers(), first.workers());
    std::vector<float> data(10, 1), got(10);
    w.push_pull("add", data, got).wait_for(Seconds(20));
    EXPECT_EQ(got, std::vector<float>(10, 1));
  });
}

INSTANTIATE_TEST_SUITE_P(Everywhere, ServerJoins, ::testing::Values("shm", "tcp"),
                         [](const auto& one) { return std::string(one.param); });

}  // namespace
}  // namespace tutti::testing
