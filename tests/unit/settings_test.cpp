// The settings table: parsing, ranges, the environment, suggestions for wrong names.
#include "tutti/settings.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <set>

#include "transports/ibverbs/settings.hpp"
#include "transports/shm/settings.hpp"
#include "transports/tcp/settings.hpp"

namespace tutti {
namespace {

// Sets an environment variable until the end of a scope.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { ::setenv(name, value, 1); }
  ~Variable() { ::unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

std::string refusal(std::string_view key, std::string_view value, std::string_view source = "flag") {
  Settings settings;
  try {
    settings.set(key, value, source);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::invalid);
    return error.what();
  }
  return "";
}

TEST(SettingsTest, BytesParse) {
  EXPECT_EQ(parse_bytes("0"), 0);
  EXPECT_EQ(parse_bytes("17"), 17);
  EXPECT_EQ(parse_bytes("64K"), 64 << 10);
  EXPECT_EQ(parse_bytes("64k"), 64 << 10);
  EXPECT_EQ(parse_bytes("3M"), 3 << 20);
  EXPECT_EQ(parse_bytes("2G"), std::int64_t{2} << 30);
  EXPECT_EQ(parse_bytes("9223372036854775807"), INT64_MAX);
  for (const char* wrong : {"", "K", "-1", "1.5M", "64KB", "1 K", " 1", "0x10", "9223372036854775808", "9999999999G"}) {
    EXPECT_THROW((void)parse_bytes(wrong), Error) << wrong;
  }
}

TEST(SettingsTest, EveryRowTakesItsOwnText) {
  const Settings defaults;
  std::set<std::string_view> keys;
  for (const SettingInfo& row : setting_table()) {
    EXPECT_TRUE(keys.insert(row.key).second) << row.key;
    EXPECT_FALSE(row.meaning.empty()) << row.key;
    const std::string text = value_text(defaults, row);
    Settings settings;
    if (!text.empty()) settings.set(row.key, text, "test");
    EXPECT_EQ(value_text(settings, row), text) << row.key;
  }
}

TEST(SettingsTest, SetsAndRemembersTheSource) {
  Settings settings;
  settings.set("lane_bytes", "256K", "flag");
  settings.set("timeout", "2.5", "file job.yaml");
  settings.set("max_lanes", "8", "flag");
  settings.set("transport", "tcp", "flag");
  EXPECT_EQ(settings.lane_bytes, 256 << 10);
  EXPECT_EQ(settings.timeout, 2.5);
  EXPECT_EQ(settings.max_lanes, 8);
  EXPECT_EQ(settings.transport, "tcp");
  EXPECT_EQ(settings.sources.at("timeout"), "file job.yaml");
  EXPECT_EQ(settings.sources.size(), 4u);
}

std::string text_of(const Settings& settings, std::string_view key) {
  for (const SettingInfo& row : setting_table()) {
    if (row.key == key) return value_text(settings, row);
  }
  return "no such row";
}

TEST(SettingsTest, ValueTextIsShort) {
  Settings settings;
  settings.set("lane_bytes", "65536", "flag");
  settings.set("timeout", "30", "flag");
  EXPECT_EQ(text_of(settings, "lane_bytes"), "64K");
  EXPECT_EQ(text_of(settings, "timeout"), "30");
  EXPECT_EQ(text_of(settings, "log"), "warn");
}

// Also works in a build without that provider.
TEST(SettingsTest, AProvidersSettingIsOneAsAnyOther) {
  const Settings defaults;
  EXPECT_EQ(defaults.of(shm_dir), "/dev/shm");
  EXPECT_EQ(defaults.of(shm_bytes), 4 << 20);
  EXPECT_EQ(defaults.of(ib_gid_index), -1);
  EXPECT_EQ(text_of(defaults, "shm_bytes"), "4M");
  EXPECT_EQ(text_of(defaults, "tcp_congestion"), "cubic,reno");

  const Variable port("TUTTI_IB_PORT", "2");
  Settings settings = Settings::from_environment();
  settings.set("shm_bytes", "1048576", "flag");
  settings.set("shm_dir", "", "flag");
  EXPECT_EQ(settings.of(ib_port), 2);
  EXPECT_EQ(settings.of(shm_bytes), 1 << 20);
  EXPECT_EQ(settings.of(shm_dir), "");
  EXPECT_EQ(text_of(settings, "shm_bytes"), "1M");
  EXPECT_EQ(settings.sources.at("ib_port"), "environment");
  EXPECT_TRUE(settings.unknown.empty());
  EXPECT_EQ(refusal("shm_bytes", "1"), "shm_bytes='1' (from flag): give a value from 64K to 1024G.");
  EXPECT_EQ(refusal("nccl_order", "any"), "nccl_order='any' (from flag): give one of agreed, issued.");
  EXPECT_EQ(refusal("mpi_min_byte", "1"), "there is no setting 'mpi_min_byte': did you mean 'mpi_min_bytes'?");
}

// The settings for which all ranks use rank 0's values.
TEST(SettingsTest, SomeMustAgree) {
  std::set<std::string_view> agreed;
  for (const SettingInfo& row : setting_table())
    if (row.rules.agreed) agreed.insert(row.key);
  EXPECT_EQ(agreed, (std::set<std::string_view>{"backend", "chaos", "device_backends", "lane_bytes", "max_lanes", "net",
                                                "select", "tcp_connections", "transport", "verify"}));
}

TEST(SettingsTest, RefusesWithASentence) {
  EXPECT_EQ(refusal("timeout", "soon"), "timeout='soon' (from flag): give a number of seconds, such as 30 or 0.5.");
  EXPECT_EQ(refusal("timeout", "0"), "timeout='0' (from flag): give a value from 0.001 to 1000000000.");
  EXPECT_NE(refusal("timeout", "nan"), "");
  EXPECT_EQ(refusal("max_lanes", "0"), "max_lanes='0' (from flag): give a value from 1 to 256.");
  EXPECT_EQ(refusal("ib_gid_index", "256"), "ib_gid_index='256' (from flag): give a value from -1 to 255.");
  EXPECT_EQ(refusal("max_lanes", "1K"), "max_lanes='1K' (from flag): give a whole number.");
  EXPECT_EQ(refusal("lane_bytes", "1", "environment"), "TUTTI_LANE_BYTES='1': give a value from 64 to 1G.");
  EXPECT_EQ(refusal("lane_bytes", "1T"),
            "lane_bytes='1T' (from flag): give a number of bytes, such as 65536, 64K, 1M or 2G.");
  EXPECT_EQ(refusal("verify", "ful"), "verify='ful' (from flag): give one of off, light, full.");
  EXPECT_EQ(refusal("log", "verbose"), "log='verbose' (from flag): give one of off, error, warn, info, debug.");
}

TEST(SettingsTest, AFailedSetChangesNothing) {
  Settings settings;
  EXPECT_THROW(settings.set("timeout", "-1", "flag"), Error);
  EXPECT_EQ(settings.timeout, Settings().timeout);
  EXPECT_TRUE(settings.sources.empty());
}

TEST(SettingsTest, AnUnknownKeyNamesTheNearest) {
  EXPECT_EQ(refusal("lanebytes", "1M"), "there is no setting 'lanebytes': did you mean 'lane_bytes'?");
  EXPECT_EQ(refusal("qqqqqqqq", "1"), "there is no setting 'qqqqqqqq': 'tutti info -c' lists them.");
}

TEST(SettingsTest, NearestByEdits) {
  const std::string_view words[] = {"timeout", "transport", "verify"};
  EXPECT_EQ(nearest("timeuot", words), "timeout");
  EXPECT_EQ(nearest("transprt", words), "transport");
  EXPECT_EQ(nearest("verify", words), "verify");
  EXPECT_EQ(nearest("elephant", words), "");
  EXPECT_EQ(nearest("", words), "");
  EXPECT_EQ(nearest(std::string(500, 'a'), words), "");
  EXPECT_EQ(nearest("anything", {}), "");
}

TEST(SettingsTest, ReadsTheEnvironment) {
  const Variable timeout("TUTTI_TIMEOUT", "12"), lanes("TUTTI_LANE_BYTES", "64K"), empty("TUTTI_TRANSPORT", "");
  const Settings settings = Settings::from_environment();
  EXPECT_EQ(settings.timeout, 12);
  EXPECT_EQ(settings.lane_bytes, 64 << 10);
  EXPECT_EQ(settings.transport, Settings().transport);  // an empty variable counts as unset
  EXPECT_EQ(settings.sources.at("timeout"), "environment");
  EXPECT_FALSE(settings.sources.contains("transport"));
}

TEST(SettingsTest, AWrongValueInTheEnvironmentNamesTheVariable) {
  const Variable wrong("TUTTI_MAX_LANES", "many");
  try {
    (void)Settings::from_environment();
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "TUTTI_MAX_LANES='many': give a whole number.");
  }
}

std::string warnings() {
  testing::internal::CaptureStderr();
  warn_of_unknown(Settings::from_environment());
  return testing::internal::GetCapturedStderr();
}

TEST(SettingsTest, WarnsOfAnUnknownVariableOnce) {
  const Variable typo("TUTTI_TIMEOOT", "12");
  EXPECT_EQ(warnings(),
            "tutti warning: the environment variable TUTTI_TIMEOOT means nothing to this version; did you mean "
            "TUTTI_TIMEOUT?\n");
  EXPECT_EQ(Settings::from_environment().unknown, std::vector<std::string>{"TUTTI_TIMEOOT"});
  EXPECT_EQ(warnings(), "");
}

TEST(SettingsTest, KnowsWhatLaunchersAndTestsSet) {
  const Variable rank("TUTTI_RANK", "0"), ranks("TUTTI_SIZE", "1"), local("TUTTI_LOCAL_RANK", "0"),
      locals("TUTTI_LOCAL_SIZE", "1"), test("TUTTI_TEST_SEED", "7"), other("TUTTIFRUTTI", "x");
  EXPECT_EQ(warnings(), "");
}

TEST(SettingsTest, AQuietLogHasNoWarnings) {
  const Variable quiet("TUTTI_LOG", "error"), typo("TUTTI_XYZZY_QUIET", "1");
  EXPECT_EQ(warnings(), "");
}

}  // namespace
}  // namespace tutti
