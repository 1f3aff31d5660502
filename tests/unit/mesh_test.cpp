// The mesh: positions of ranks, groups along axes, and the errors for axes that do not fit.
#include "tutti/mesh.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/refusal.hpp"
#include "tests/support/require.hpp"
#include "tests/support/worlds.hpp"

namespace tutti::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::vector<int> world_ranks(const Communicator& group) {
  std::vector<int> ranks;
  for (int i = 0; i < group.size(); ++i) ranks.push_back(group.world_rank(i));
  return ranks;
}

void run(int size, const std::function<void(Communicator&)>& body) { run_ranks(size, test_settings("inproc"), body); }

TEST(Mesh, TheLastAxisHasTheNearestRanks) {
  run(12, [](Communicator& world) {
    const Mesh mesh(world, {{"data", 2}, {"height", 3}, {"tensor", 2}});
    const int rank = world.rank();
    require(mesh.rank("data") == rank / 6 && mesh.rank("height") == rank / 2 % 3 && mesh.rank("tensor") == rank % 2,
            "the places of rank " + std::to_string(rank));
    require(world_ranks(mesh["tensor"]) == std::vector<int>{rank / 2 * 2, rank / 2 * 2 + 1}, "neighbours");
    require(world_ranks(mesh["data"]) == std::vector<int>{rank % 6, rank % 6 + 6}, "the outermost axis");
    const int corner = rank / 6 * 6 + rank % 2;
    require(world_ranks(mesh["height"]) == std::vector<int>{corner, corner + 2, corner + 4}, "the middle axis");
    for (const char* axis : {"data", "height", "tensor"})
      require(mesh[axis].rank() == mesh.rank(axis) && mesh[axis].size() == mesh.size(axis), axis);
  });
}

TEST(Mesh, SeveralAxesAreOneGrid) {
  run(8, [](Communicator& world) {
    const Mesh mesh(world, {{"dp", 2}, {"height", 2}, {"width", 2}});
    const int first = world.rank() / 4 * 4;
    const std::vector<int> tile{first, first + 1, first + 2, first + 3};
    require(world_ranks(mesh["height,width"]) == tile, "height and width");
    require(world_ranks(mesh["width, height"]) == tile, "in the mesh's order whatever the text's");
    require(mesh.size("width,height") == 4 && mesh.rank("height,width") == world.rank() % 4, "size and place");
    require(world_ranks(mesh["dp,width"]).size() == 4 && mesh["dp,width"].rank() == mesh.rank("data,width"), "apart");
    require(mesh["dp,height,width"].size() == 8, "all of them");
    require(mesh.size("tensor") == 1 && mesh.rank("tp") == 0 && !mesh.has("tensor") && mesh.has("dp"), "what is not");
  });
}

TEST(Mesh, GroupsAreMadeWhenFirstUsedByTheirMembersAlone) {
  run(4, [](Communicator& world) {
    const Mesh mesh(world, {{"data", 2}, {"tensor", 2}});
    if (mesh.rank("data") == 1) {  // the other ranks never use the group
      require(mesh["tp"].allreduce(world.rank()).wait() == 5, "the sum of ranks 2 and 3");
      const Mesh copy = mesh;
      require(copy["tensor"].allreduce(1).wait() == 2 && copy == mesh, "the same group again");
    }
  });
}

TEST(Mesh, OneAxisMayTakeWhatIsLeft) {
  run(6, [](Communicator& world) {
    const Mesh mesh(world, Mesh::parse("data=-1, tp=2"));
    require(mesh.name() == "data 3 x tensor 2", mesh.name());
  });
}

TEST(Mesh, SaysWhichRankSitsWhere) {
  run_ranks(
      4,
      [](int rank) {
        Settings settings = test_settings("inproc");
        settings.host_id = "host-" + std::to_string(rank / 2);
        return settings;
      },
      [](Communicator& world) {
        const std::string host = world.topology()[0].host_name;
        require(Mesh(world, {{"data", 2}, {"tensor", 2}}).describe() ==
                    "mesh data 2 x tensor 2 of 4 ranks\n"
                    "  data 0, tensor: rank 0 on " +
                        host +
                        ", rank 1\n"
                        "  data 1, tensor: rank 2 on " +
                        host + ", rank 3\n",
                Mesh(world, {{"data", 2}, {"tensor", 2}}).describe());
      });
}

TEST(Mesh, NamesMeshAndRanksWhereTheyDoNotFit) {
  run(6, [](Communicator& world) {
    const auto says = [&](std::vector<Mesh::Axis> axes, Code code = Code::invalid) {
      return refusal([&] { Mesh(world, std::move(axes)); }, code);
    };
    EXPECT_THAT(says({{"data", 2}, {"tensor", 2}}),
                AllOf(HasSubstr("mesh data 2 x tensor 2 has 4 ranks"), HasSubstr("the communicator has 6")));
    EXPECT_THAT(says({{"data", 4}, {"tensor", -1}}), HasSubstr("data 4 x tensor ?"));
    EXPECT_THAT(says({{"data", -1}, {"tensor", -1}}), HasSubstr("-1 on one axis"));
    EXPECT_THAT(says({{"data", 0}}), HasSubstr("at least 1"));
    EXPECT_THAT(says({{"rows", 6}}), AllOf(HasSubstr("'rows'"), HasSubstr("height")));
    EXPECT_THAT(says({{"tp", 2}, {"tensor", 3}}), HasSubstr("tensor twice"));
    EXPECT_THAT(says({{"data", world.rank() < 3 ? 2 : 3}, {"tensor", -1}}, Code::mismatch),
                AllOf(HasSubstr("has other axes"), HasSubstr("mesh data ")));
    const Mesh mesh(world, {{"data", 6}});
    EXPECT_THAT(refusal([&] { mesh["tensor"]; }), HasSubstr("mesh data 6 has no axis tensor"));
    EXPECT_THAT(refusal([] { Mesh::parse("data=two"); }), HasSubstr("AXIS=RANKS"));
    EXPECT_THAT(refusal([] { Mesh::parse("data"); }), HasSubstr("AXIS=RANKS"));
  });
}

}  // namespace
}  // namespace tutti::testing
