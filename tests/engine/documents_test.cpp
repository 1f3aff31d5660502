// YAML and JSON within limits, with the file and the line in every message.
#include "engine/config/documents.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/refusal.hpp"
#include "tests/support/temporary_folder.hpp"
#include "transports/core/text_file.hpp"

namespace tutti::engine {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::refusal;
using ::testing::StartsWith;

std::string refused_yaml(const std::string& text) {
  return refusal([&] { parse_yaml(text, "a.yaml"); });
}
std::string refused_json(const std::string& text) {
  return refusal([&] { parse_json(text, "a.json"); });
}
std::string nested(int depth, char open, char close) {
  return std::string(static_cast<std::size_t>(depth), open) + std::string(static_cast<std::size_t>(depth), close);
}

TEST(Yaml, AliasesStandForWhatTheyName) {
  const YAML::Node node = parse_yaml("a: &x {b: [1, 2]}\nc: *x\n", "a.yaml");
  EXPECT_EQ(node["c"]["b"][1].as<int>(), 2);
  EXPECT_TRUE(parse_yaml("", "a.yaml").IsNull());
}

TEST(Yaml, AnAliasWithinWhatItStandsForIsRefused) {
  EXPECT_EQ(refused_yaml("data: &x\n  y: *x\n"), "a.yaml:2: has an alias within what it stands for");
  EXPECT_THAT(refused_yaml("&a [1, &b [*a], *b]"), StartsWith("a.yaml:1: "));
}

TEST(Yaml, NodesAreCountedAsAWalkMeetsThem) {
  std::string bomb = "l0: &l0 {}\n";
  for (int i = 1; i <= 36; ++i) {
    const std::string before = "*l" + std::to_string(i - 1);
    bomb += "l" + std::to_string(i) + ": &l" + std::to_string(i) + " [" + before + ", " + before + "]\n";
  }
  EXPECT_THAT(refused_yaml(bomb), AllOf(StartsWith("a.yaml:"), HasSubstr("has more than 100000 values")));

  std::string list = "[";
  for (int i = 0; i < 99'999; ++i) list += "0,";
  EXPECT_EQ(parse_yaml(list + "]", "a.yaml").size(), 99'999U);
  EXPECT_THAT(refused_yaml(list + "0]"), HasSubstr("has more than 100000 values"));
}

TEST(Yaml, DepthHasALimit) {
  EXPECT_NO_THROW(parse_yaml(nested(64, '[', ']'), "a.yaml"));
  EXPECT_EQ(refused_yaml(nested(65, '[', ']')), "a.yaml:1: has more than 64 lists and maps within one another");
  EXPECT_THAT(refused_yaml(nested(100'000, '[', ']')), HasSubstr("has more than 64"));
  std::string chain = "a0: &a0 [[[[[[[[]]]]]]]]\n";
  for (int i = 1; i < 8; ++i)
    chain +=
        "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [[[[[[[[*a" + std::to_string(i - 1) + "]]]]]]]]\n";
  EXPECT_THAT(refused_yaml(chain), AllOf(StartsWith("a.yaml:8: "), HasSubstr("has more than 64")))
      << "aliases are followed";
}

TEST(Yaml, SyntaxErrorsNameTheLine) { EXPECT_THAT(refused_yaml("a: 1\nb: [1,\nc: }\n"), StartsWith("a.yaml:3: ")); }

TEST(Json, IsReadWithinLimits) {
  EXPECT_EQ(parse_json(R"({"a": [1, 2]})", "a.json").at("a").at(1), 2);
  EXPECT_EQ(refused_json(R"({"a": 1, "b": {"a": 2}, "a": 3})"), "a.json: has 'a' twice");
  EXPECT_NO_THROW(parse_json(nested(64, '[', ']'), "a.json"));
  EXPECT_EQ(refused_json(nested(65, '[', ']')), "a.json: has more than 64 lists and maps within one another");
  EXPECT_THAT(refused_json(std::string(100'000, '[')), HasSubstr("has more than 64"));
  std::string list = "[0";
  for (int i = 1; i < 99'999; ++i) list += ",0";
  EXPECT_EQ(parse_json(list + "]", "a.json").size(), 99'999U);
  EXPECT_EQ(refused_json(list + ",0]"), "a.json: has more than 100000 values");
  EXPECT_THAT(refused_json("{\n\"a\": }"), StartsWith("a.json:2: is no JSON: "));
  EXPECT_THAT(refused_json(""), StartsWith("a.json:1: is no JSON: "));
}

TEST(ReadText, FilesHaveALimit) {
  const testing::TemporaryFolder temporary;
  const std::string file = temporary.path() + "/a.txt";
  std::ofstream(file) << "12345";
  EXPECT_EQ(read_text(file, 5), "12345");
  EXPECT_THAT(refusal([&] { read_text(file, 4); }),
              AllOf(StartsWith(file + ": "), HasSubstr("has 5 bytes, more than 4, the limit")));
  EXPECT_THAT(refusal([&] { read_text(temporary.path(), 4); }), HasSubstr("is a folder"));
  EXPECT_THAT(refusal([&] { read_text(file + "x", 4); }), StartsWith(file + "x: cannot be read: "));
}

}  // namespace
}  // namespace tutti::engine
