// Which launcher's variables are used, what they mean, and the errors for conflicts.
#include "collectives/bootstrap/membership.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "collectives/bootstrap/meeting.hpp"
#include "tutti/status.hpp"

namespace tutti::launchers {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Variables = std::map<std::string, std::string>;

Environment environment_of(Variables variables) {
  return [variables = std::move(variables)](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  };
}

Choice chosen(const Variables& variables, bool has_store = false) {
  return choose_membership(environment_of(variables), has_store);
}

std::string refused(const Variables& variables, bool has_store = false) {
  try {
    chosen(variables, has_store);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::invalid);
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

Variables operator+(Variables a, const Variables& b) {
  for (const auto& [name, value] : b) a[name] = value;
  return a;
}

const Variables tutti_variables = {{"TUTTI_RANK", "1"},
                                   {"TUTTI_SIZE", "4"},
                                   {"TUTTI_LOCAL_RANK", "1"},
                                   {"TUTTI_LOCAL_SIZE", "4"},
                                   {"TUTTI_STARTER", "mark"}};
const Variables torchrun_variables = {{"RANK", "5"},         {"WORLD_SIZE", "8"},      {"LOCAL_RANK", "1"},
                                      {"MASTER_ADDR", "h0"}, {"MASTER_PORT", "29500"}, {"LOCAL_WORLD_SIZE", "4"}};
const Variables open_mpi_variables = {{"OMPI_COMM_WORLD_RANK", "2"},
                                      {"OMPI_COMM_WORLD_SIZE", "3"},
                                      {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                                      {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}};
const Variables hydra_variables = {
    {"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"PMI_FD", "6"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}};
const Variables slurm_variables = {{"SLURM_PROCID", "6"},  {"SLURM_NTASKS", "7"},
                                   {"SLURM_STEP_ID", "0"}, {"SLURM_STEP_TASKS_PER_NODE", "3(x2),1"},
                                   {"SLURM_NODEID", "2"},  {"SLURM_LOCALID", "0"}};

void expect(const Choice& choice, const std::string& name, std::vector<int> values) {
  const Membership& m = choice.membership;
  EXPECT_EQ(m.name, name);
  EXPECT_THAT((std::vector<int>{m.rank, m.size, m.local_rank, m.local_size}), ::testing::ContainerEq(values)) << name;
}

TEST(Membership, EachLauncher) {
  expect(chosen({}), "alone", {0, 1, 0, 1});
  expect(chosen(tutti_variables, true), "tutti run", {1, 4, 1, 4});
  expect(chosen(torchrun_variables), "torchrun", {5, 8, 1, 4});
  expect(chosen(open_mpi_variables), "Open MPI", {2, 3, 0, 1});
  expect(chosen(hydra_variables), "hydra", {1, 2, 1, 2});
  expect(chosen(slurm_variables), "SLURM", {6, 7, 0, 1});
}

TEST(Membership, EvidenceIsKeptForMessages) {
  EXPECT_EQ(chosen(open_mpi_variables).membership.evidence, "OMPI_COMM_WORLD_RANK=2, OMPI_COMM_WORLD_SIZE=3");
}

TEST(Membership, OneOfTuttisAloneIsAMistake) {
  EXPECT_THAT(refused({{"TUTTI_RANK", "0"}}), HasSubstr("TUTTI_SIZE"));
  EXPECT_THAT(refused({{"TUTTI_SIZE", "2"}}), HasSubstr("TUTTI_RANK"));
  EXPECT_THAT(refused(tutti_variables, false), HasSubstr("TUTTI_STORE"));
  expect(chosen({{"TUTTI_RANK", "0"}, {"TUTTI_SIZE", "1"}}), "hand", {0, 1, 0, 1});
}

TEST(Membership, AnEngineThatSaysOneHalf) {
  EXPECT_THAT(refused({{"OMPI_COMM_WORLD_RANK", "2"}}),
              HasSubstr("Open MPI's OMPI_COMM_WORLD_RANK=2 is set, but OMPI_COMM_WORLD_SIZE is not"));
  EXPECT_THAT(refused({{"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "1"}}),
              HasSubstr("SLURM_PROCID=1 is set, but SLURM_NTASKS is not"));
}

TEST(Membership, LocalRanksThatContradict) {
  for (const auto& [name, value] : {std::pair{"LOCAL_RANK", "4"}, {"LOCAL_RANK", "-1"}, {"LOCAL_WORLD_SIZE", "9"}})
    EXPECT_THAT(refused(torchrun_variables + Variables{{name, value}}), HasSubstr(std::string(name) + "=" + value));
  Variables without = torchrun_variables;
  without.erase("LOCAL_WORLD_SIZE");
  expect(chosen(without), "torchrun", {5, 8, 1, 1});
}

TEST(Membership, AnIndexedJob) {
  const Variables pod = {{"JOB_COMPLETION_INDEX", "2"}};
  expect(chosen(pod), "alone", {0, 1, 0, 1});
  expect(chosen(pod + Variables{{"TUTTI_SIZE", "4"}}, true), "Kubernetes", {2, 4, 0, 1});
  EXPECT_THAT(refused(pod, true), HasSubstr("TUTTI_SIZE is not; set it to the Job's completions"));
  EXPECT_THAT(refused(pod + Variables{{"TUTTI_SIZE", "4"}}), HasSubstr("TUTTI_STORE is not set"));
  EXPECT_THAT(refused(pod + Variables{{"TUTTI_SIZE", "2"}}, true), HasSubstr("JOB_COMPLETION_INDEX=2, TUTTI_SIZE=2"));
  expect(chosen(pod + tutti_variables, true), "tutti run", {1, 4, 1, 4});
  expect(chosen(pod + torchrun_variables, true), "torchrun", {5, 8, 1, 4});
}

TEST(Membership, NonsenseIsNamed) {
  EXPECT_THAT(refused(tutti_variables + Variables{{"TUTTI_RANK", "one"}}, true), HasSubstr("TUTTI_RANK='one'"));
  EXPECT_THAT(refused(tutti_variables + Variables{{"TUTTI_RANK", "4"}}, true), HasSubstr("TUTTI_RANK=4, TUTTI_SIZE=4"));
  EXPECT_THAT(refused(open_mpi_variables + Variables{{"OMPI_COMM_WORLD_RANK", "-1"}}), HasSubstr("RANK=-1"));
  EXPECT_THAT(refused(torchrun_variables + Variables{{"WORLD_SIZE", "0"}}), HasSubstr("WORLD_SIZE=0"));
  EXPECT_THAT(refused(torchrun_variables + Variables{{"WORLD_SIZE", "99999999999"}}), HasSubstr("99999999999"));
  EXPECT_THAT(refused(torchrun_variables + Variables{{"RANK", ""}}), HasSubstr("RANK=''"));
}

TEST(Membership, IncompleteVariablesAreNotUsed) {
  expect(chosen({{"RANK", "1"}}), "alone", {0, 1, 0, 1});
  EXPECT_TRUE(chosen({{"RANK", "1"}}).warnings.empty());  // RANK alone may belong to any program
  const Variables no_master = {{"RANK", "1"}, {"WORLD_SIZE", "2"}};
  const Choice without = chosen(no_master);
  expect(without, "alone", {0, 1, 0, 1});
  EXPECT_THAT(without.warnings, ElementsAre(HasSubstr("MASTER_ADDR")));
  expect(chosen(no_master, true), "torchrun", {1, 2, 0, 1});  // ranks meet in TUTTI_STORE instead
  const Choice no_fd = chosen({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}});
  expect(no_fd, "alone", {0, 1, 0, 1});
  EXPECT_THAT(no_fd.warnings, ElementsAre(HasSubstr("PMI_FD")));
}

TEST(Membership, ABatchScriptIsNobodysRank) {
  for (const char* step : {"4294967291", "4294967290", "4294967294", "", "x"})
    expect(chosen(slurm_variables + Variables{{"SLURM_STEP_ID", step}}), "alone", {0, 1, 0, 1});
  expect(chosen(slurm_variables + Variables{{"SLURM_STEP_NUM_TASKS", "9"}}), "SLURM", {6, 9, 0, 1});
}

TEST(Membership, AgreementIsANote) {
  const Choice choice =
      chosen(hydra_variables + Variables{{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}});
  EXPECT_EQ(choice.membership.name, "Open MPI");
  EXPECT_THAT(choice.notes, ElementsAre(HasSubstr("hydra")));
}

TEST(Membership, DisagreementExplainsBoth) {
  const std::string text = refused(torchrun_variables + open_mpi_variables);
  EXPECT_THAT(text, HasSubstr("torchrun says rank 5 of 8 (RANK=5, WORLD_SIZE=8)"));
  EXPECT_THAT(text, HasSubstr("Open MPI says rank 2 of 3 (OMPI_COMM_WORLD_RANK=2, OMPI_COMM_WORLD_SIZE=3)"));
  EXPECT_THAT(refused(tutti_variables + open_mpi_variables, true), HasSubstr("tutti run says rank 1 of 4"));
  EXPECT_THAT(refused(open_mpi_variables + hydra_variables), HasSubstr("hydra says rank 1 of 2"));
}

TEST(Membership, OneLauncherMayStartAnother) {
  // srun may start mpirun, torchrun or tutti run on each node, and mpirun may start torchrun on each node.
  for (const auto& [inner, name] :
       {std::pair{torchrun_variables, "torchrun"}, std::pair{open_mpi_variables, "Open MPI"},
        std::pair{tutti_variables, "tutti run"}}) {
    const Choice choice = chosen(slurm_variables + inner, true);
    EXPECT_EQ(choice.membership.name, name);
    EXPECT_THAT(choice.notes, ElementsAre(HasSubstr("SLURM says rank 6 of 7")));
  }
  const Choice choice = chosen(torchrun_variables + open_mpi_variables + Variables{{"TORCHELASTIC_RUN_ID", "x"}});
  expect(choice, "torchrun", {5, 8, 1, 4});
}

TEST(Slurm, ALocalRankIsOneOfTheJobs) {
  for (const char* rank : {"7", "2147483647", "-1"})
    EXPECT_THAT(refused(slurm_variables + Variables{{"SLURM_LOCALID", rank}}), HasSubstr("SLURM_LOCALID=")) << rank;
  EXPECT_THAT(refused(Variables{{"TUTTI_RANK", "0"}, {"TUTTI_SIZE", "2"}, {"TUTTI_LOCAL_RANK", "-1"}}, true),
              HasSubstr("TUTTI_LOCAL_RANK=-1 contradict"));
}

TEST(SlurmLists, Hosts) {
  EXPECT_THAT(expand_hosts("login"), ElementsAre("login"));
  EXPECT_THAT(expand_hosts("n[1-3,07],login"), ElementsAre("n1", "n2", "n3", "n07", "login"));
  EXPECT_THAT(expand_hosts("n[08-10]"), ElementsAre("n08", "n09", "n10"));
  EXPECT_THAT(expand_hosts("r[1-2]n[1,3].cluster"),
              ElementsAre("r1n1.cluster", "r1n3.cluster", "r2n1.cluster", "r2n3.cluster"));
  EXPECT_THAT(expand_hosts("a-b,c-1"), ElementsAre("a-b", "c-1"));
  EXPECT_EQ(expand_hosts("n[0001-4096]").size(), 4096U);
  for (const char* bad : {"", "n[", "n]", "n[1-]", "n[3-1]", "n[a]", "n[]", "a,,b", "n[[1]]", "n[1-999999999]", "n[1-",
                          "n[18446744073709551615]", "a[1-300]b[1-400]", "a[1]b[1]c[1]d[1]e[1]f[1]g[1]h[1]i[1]"})
    EXPECT_THROW(expand_hosts(bad), Error) << bad;
  EXPECT_THROW(expand_hosts(std::string(250, 'n') + "[1-100000]"), Error);
  EXPECT_THROW(expand_hosts("n[1-60000],m[1-60000]"), Error);
}

TEST(SlurmLists, Tasks) {
  for (const auto& [node, tasks] : std::map<int, int>{{0, 4}, {1, 4}, {2, 3}, {3, 1}, {4, 1}, {5, 1}, {6, 0}})
    EXPECT_EQ(tasks_on_node("4(x2),3,1(x3)", node), tasks) << node;
  EXPECT_EQ(tasks_on_node("8", 0), 8);
  EXPECT_EQ(tasks_on_node("", 0), 0);
  EXPECT_EQ(tasks_on_node("x", 0), 0);
  EXPECT_EQ(tasks_on_node("4(x-2147483648),3", 1), 0);
}

TEST(Ports, CandidatesArePortsForUsers) {
  for (const int first : {1, 80, 1024, 29501, 65530, 65535, 65536}) {
    const std::vector<int> ports = port_candidates(first);
    EXPECT_EQ(ports.size(), 16U);
    for (const int port : ports) EXPECT_TRUE(port >= 1024 && port <= 65535) << first << " gave " << port;
    EXPECT_EQ(std::set<int>(ports.begin(), ports.end()).size(), ports.size()) << first;
  }
  EXPECT_EQ(port_candidates(29501).front(), 29501);
}

TEST(Alone, NeedsNothing) {
  const Bootstrap alone = bootstrap_from(Settings{}, environment_of({}));
  EXPECT_EQ(alone.size, 1);
  EXPECT_EQ(alone.launcher, "alone");
  EXPECT_FALSE(alone.settings.secret.empty());
  EXPECT_FALSE(alone.settings.job.empty());
  alone.store->set("key", "value");
  EXPECT_EQ(alone.store->wait("key", never), "value");
}

TEST(OpenMpi, SaysWhatItNeeds) {
  const auto text = [](const Variables& variables) {
    try {
      bootstrap_from(Settings{}, environment_of(variables));
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::invalid);
      return std::string(error.what());
    }
    return std::string("nothing was thrown");
  };
  EXPECT_THAT(text(open_mpi_variables), ::testing::AllOf(HasSubstr("several hosts"), HasSubstr("TUTTI_STORE=tcp://")));
  EXPECT_THAT(text(open_mpi_variables + Variables{{"OMPI_COMM_WORLD_LOCAL_SIZE", "3"}}),
              ::testing::AllOf(HasSubstr("session folder"), HasSubstr("TUTTI_STORE=tcp://")));
}

}  // namespace
}  // namespace tutti::launchers
