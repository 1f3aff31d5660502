// Bootstraps of several ranks that are threads: files, servers on deterministic ports, occupied ports, PMI.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>
#include <thread>

#include "collectives/bootstrap/meeting.hpp"
#include "tests/support/caught.hpp"
#include "tutti/store.hpp"

namespace tutti::launchers {
namespace {

using Variables = std::map<std::string, std::string>;

Environment environment_of(Variables variables) {
  return [variables = std::move(variables)](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  };
}

Settings settings_with(const std::string& store, const std::string& secret = "") {
  Settings settings;
  settings.store = store;
  settings.secret = secret;
  return settings;
}

/// Bootstraps all ranks at once; each rank then waits in the store for all others.
std::vector<Bootstrap> bootstrap_all(int size, const Settings& settings,
                                     const std::function<Variables(int)>& variables) {
  std::vector<Bootstrap> found(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
      try {
        Bootstrap self = bootstrap_from(settings, environment_of(variables(rank)));
        self.store->set("here/" + std::to_string(rank), "yes");
        for (int other = 0; other < size; ++other)
          EXPECT_EQ(self.store->wait("here/" + std::to_string(other), deadline_in(Seconds(60))), "yes");
        found[static_cast<std::size_t>(rank)] = self;
      } catch (const Error& error) {
        ADD_FAILURE() << "rank " << rank << ": " << error.what();
      }
    });
  for (auto& thread : threads) thread.join();
  return found;
}

void expect_one_job(const std::vector<Bootstrap>& all) {
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i].rank, static_cast<int>(i));
    EXPECT_EQ(all[i].settings.secret, all[0].settings.secret);
    EXPECT_EQ(all[i].settings.job, all[0].settings.job);
    EXPECT_GE(all[i].settings.secret.size(), 4U);
  }
}

/// Ends all ranks at once, because the rank that serves the store waits until the others have left.
void leave(std::vector<Bootstrap>& all) {
  std::vector<std::thread> threads;
  for (Bootstrap& one : all) threads.emplace_back([&one] { one = {}; });
  for (auto& thread : threads) thread.join();
}

Variables tutti_rank(int rank, int size) {
  return {{"TUTTI_RANK", std::to_string(rank)}, {"TUTTI_SIZE", std::to_string(size)}};
}

int free_port() { return TcpStoreServer("127.0.0.1", 0, "").port(); }

Variables torchrun_rank(int rank, int size, int port) {
  return {{"RANK", std::to_string(rank)},      {"WORLD_SIZE", std::to_string(size)},
          {"MASTER_ADDR", "localhost"},        {"MASTER_PORT", std::to_string(port)},
          {"TORCHELASTIC_RUN_ID", "the run"},  {"TORCHELASTIC_RESTART_COUNT", "0"},
          {"LOCAL_RANK", std::to_string(rank)}};
}

TEST(TuttiRun, SameStoreManyTimes) {
  const TcpStoreServer server("127.0.0.1", 0, "hush");
  const Settings settings = settings_with("tcp://127.0.0.1:" + std::to_string(server.port()), "hush");
  for (int round = 0; round < 3; ++round) {
    auto all = bootstrap_all(3, settings, [](int rank) { return tutti_rank(rank, 3); });
    expect_one_job(all);
    EXPECT_EQ(all[0].settings.secret, "hush");
    std::string left_over;
    EXPECT_FALSE(all[0].store->find("round", left_over)) << "an earlier round's key is visible";
    all[0].store->set("round", "x");
  }
}

TEST(TuttiRun, FolderGivesTheSecret) {
  std::string folder = ::testing::TempDir() + "tutti-bootstrap-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  auto all = bootstrap_all(3, settings_with("file://" + folder), [](int rank) { return tutti_rank(rank, 3); });
  expect_one_job(all);
  EXPECT_EQ(all[0].settings.secret.size(), 64U);
  std::filesystem::remove_all(folder);
}

TEST(TuttiRun, ARankThatIsThereTwice) {
  // The other process that claims to be rank 0 is a child of this test, so it is on this host and alive.
  std::string folder = ::testing::TempDir() + "tutti-bootstrap-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const Settings settings = settings_with("file://" + folder, "hush");
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    bootstrap_from(settings, environment_of(tutti_rank(0, 2)));  // waits for rank 1
    for (;;) pause();
  }
  make_file_store(folder)->wait("tutti/" + settings.job + "/2/now", deadline_in(Seconds(60)));
  const Error error = testing::caught([&] { bootstrap_from(settings, environment_of(tutti_rank(0, 2))); });
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_EQ(error.code(), Code::invalid);
  EXPECT_THAT(error.what(), ::testing::HasSubstr("rank 0 is there twice: process " + std::to_string(child)));
  std::filesystem::remove_all(folder);
}

TEST(StoreUrl, RankZeroServesWhatNobodyServes) {
  const Settings settings = settings_with("tcp://127.0.0.1:" + std::to_string(free_port()), "hush");
  auto all = bootstrap_all(3, settings, [](int rank) {
    return Variables{{"OMPI_COMM_WORLD_RANK", std::to_string(rank)}, {"OMPI_COMM_WORLD_SIZE", "3"}};
  });
  expect_one_job(all);
  EXPECT_EQ(all[0].launcher, "Open MPI");
  leave(all);
}

TEST(Torchrun, MeetsBesideTheMastersPort) {
  const int port = free_port();
  auto all = bootstrap_all(4, Settings{}, [&](int rank) { return torchrun_rank(rank, 4, port); });
  expect_one_job(all);
  leave(all);
}

TEST(Torchrun, TakenPortsAndStrangersArePassedOver) {
  const int port = free_port();
  // Another job uses the next two ports.
  std::vector<std::unique_ptr<TcpStoreServer>> others;
  for (int next = 1; next <= 2; ++next) try {
      others.push_back(std::make_unique<TcpStoreServer>("127.0.0.1", port + next, "another job"));
    } catch (const Error&) {
      continue;  // another process has it, which serves the test as well
    }
  auto all = bootstrap_all(3, Settings{}, [&](int rank) { return torchrun_rank(rank, 3, port); });
  expect_one_job(all);
  leave(all);
}

TEST(Torchrun, TwiceInOneProcess) {
  const int port = free_port();
  const auto variables = [&](int rank) { return torchrun_rank(rank, 2, port); };
  auto first = bootstrap_all(2, Settings{}, variables);
  first[0].store->set("mine", "first");
  auto second = bootstrap_all(2, Settings{}, variables);
  std::string value;
  EXPECT_FALSE(second[1].store->find("mine", value));
  EXPECT_EQ(first[1].store->wait("mine", deadline_in(Seconds(60))), "first");
  first.insert(first.end(), second.begin(), second.end());
  second.clear();
  leave(first);
}

TEST(Slurm, OneHost) {
  const std::string job = std::to_string(getpid());
  auto all = bootstrap_all(3, Settings{}, [&](int rank) {
    return Variables{{"SLURM_PROCID", std::to_string(rank)},
                     {"SLURM_NTASKS", "3"},
                     {"SLURM_STEP_ID", "0"},
                     {"SLURM_JOB_ID", job},
                     {"SLURM_LOCALID", "0"},
                     {"SLURM_STEP_NODELIST", "n1"},
                     {"SLURMD_NODENAME", "n1"},
                     {"SLURM_STEP_TASKS_PER_NODE", "3"},
                     {"SLURM_NODEID", "0"}};
  });
  expect_one_job(all);
  EXPECT_EQ(all[0].local_size, 3);
  leave(all);
}

TEST(OpenMpi, SessionFolder) {
  std::string folder = ::testing::TempDir() + "tutti-bootstrap-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  auto all = bootstrap_all(2, Settings{}, [&](int rank) {
    return Variables{{"OMPI_COMM_WORLD_RANK", std::to_string(rank)},
                     {"OMPI_COMM_WORLD_SIZE", "2"},
                     {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                     {"OMPI_COMM_WORLD_LOCAL_RANK", std::to_string(rank)},
                     {"PMIX_SERVER_TMPDIR", folder},
                     {"PMIX_NAMESPACE", "prterun-host@1/2"}};
  });
  expect_one_job(all);
  std::filesystem::remove_all(folder);
}

TEST(Late, ARankThatNeverComesIsATimeoutThatSaysWhere) {
  Settings settings;
  settings.connect_timeout = 0.2;
  const int port = free_port();
  const Error error = testing::caught([&] { bootstrap_from(settings, environment_of(torchrun_rank(1, 2, port))); });
  EXPECT_EQ(error.code(), Code::timeout);
  EXPECT_THAT(error.what(), ::testing::StartsWith("rank 0 has not joined the others: "));
  EXPECT_THAT(error.what(), ::testing::HasSubstr("localhost:" + std::to_string(port + 1)));
}

}  // namespace
}  // namespace tutti::launchers
