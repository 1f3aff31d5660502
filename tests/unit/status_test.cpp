// Codes, causes, statuses, log levels.
#include "tutti/status.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <string>

#include "tutti/log.hpp"

namespace tutti {
namespace {

TEST(StatusTest, EveryCodeHasItsOwnName) {
  std::set<std::string_view> names;
  for (int code = 0; code <= static_cast<int>(Code::internal); ++code) names.insert(name(static_cast<Code>(code)));
  EXPECT_EQ(names.size(), static_cast<std::size_t>(Code::internal) + 1);
  EXPECT_FALSE(names.contains("unknown"));
  EXPECT_EQ(name(Code::peer_lost), "peer_lost");
  EXPECT_EQ(name(Code::internal), "internal");
  EXPECT_EQ(name(static_cast<Code>(200)), "unknown");  // from another version
}

TEST(StatusTest, OkIsEmpty) {
  const Status status;
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(status.code(), Code::ok);
  EXPECT_EQ(status.text(), "");
}

TEST(StatusTest, FailureKeepsWhatItWasGiven) {
  const Status status = Status::failure(Code::timeout, "rank 3 never called; look at its log", 3);
  const Status copy = status;
  EXPECT_FALSE(copy.ok());
  EXPECT_EQ(copy.code(), Code::timeout);
  EXPECT_EQ(copy.text(), "rank 3 never called; look at its log");
  EXPECT_EQ(copy.cause().culprit, 3);
  EXPECT_EQ(copy.cause().reporter, -1);
  EXPECT_EQ(copy.cause().group, 0u);
  EXPECT_EQ(Status::failure(Code::invalid, "x").cause().culprit, -1);
}

TEST(StatusTest, SayCutsWhatIsTooLong) {
  Cause cause;
  cause.say(std::string(1000, 'x'));
  EXPECT_EQ(std::strlen(cause.text), sizeof(cause.text) - 1);
  cause.say("short");
  EXPECT_STREQ(cause.text, "short");
  for (std::size_t i = 5; i < sizeof(cause.text); ++i) ASSERT_EQ(cause.text[i], '\0') << i;  // the old text is erased
  cause.say("");
  EXPECT_STREQ(cause.text, "");
}

TEST(StatusTest, SayNeverCutsInsideACharacter) {
  Cause cause;
  for (std::size_t lead = 0; lead < 4; ++lead) {
    std::string sentence(lead, 'a');
    while (sentence.size() < 400) sentence += "\u20ac";  // three bytes each
    cause.say(sentence);
    const std::size_t kept = std::strlen(cause.text);
    EXPECT_EQ((kept - lead) % 3, 0u);
    EXPECT_GT(kept, sizeof(cause.text) - 4);
    EXPECT_EQ(sentence.compare(0, kept, cause.text), 0);
  }
}

TEST(StatusTest, ErrorSaysWhoAndWhat) {
  Cause cause;
  cause.code = Code::peer_lost;
  cause.culprit = 7;
  const Error error(cause, "rank 7 died");
  EXPECT_EQ(error.code(), Code::peer_lost);
  EXPECT_EQ(error.culprit(), 7);
  EXPECT_STREQ(error.what(), "rank 7 died");
}

TEST(StatusTest, ErrorIsALineWhateverItQuotes) {
  EXPECT_STREQ(Error(Code::invalid, "no '\x1b[2J\n\x7f'").what(), "no '\\x1b[2J\\n\\x7f'");
  const std::string most(2000, 'a');
  EXPECT_EQ(Error(Code::invalid, most).what(), most);
  const std::string text = Error(Code::invalid, "file: '" + std::string(1 << 20, 'x') + "': give another").what();
  EXPECT_EQ(text.size(), most.size());
  EXPECT_TRUE(text.starts_with("file: 'xxx"));
  EXPECT_NE(text.find("xxx ... xxx"), text.npos);
  EXPECT_TRUE(text.ends_with("xxx': give another"));
}

class LogTest : public testing::Test {
 protected:
  void TearDown() override { set_log_level(LogLevel::warn); }

  static std::string written(LogLevel level, std::string_view text, int rank = -1) {
    testing::internal::CaptureStderr();
    log(level, text, rank);
    return testing::internal::GetCapturedStderr();
  }
};

TEST_F(LogTest, OneLineWithRankAndLevel) {
  EXPECT_EQ(written(LogLevel::warn, "slow", 3), "tutti [rank 3] warning: slow\n");
  EXPECT_EQ(written(LogLevel::error, "broken"), "tutti error: broken\n");
  EXPECT_EQ(written(LogLevel::error, "two\nlines"), "tutti error: two lines\n");
}

TEST_F(LogTest, LevelsAreKept) {
  EXPECT_EQ(written(LogLevel::info, "hidden"), "");
  set_log_level(LogLevel::debug);
  EXPECT_EQ(written(LogLevel::debug, "seen"), "tutti debug: seen\n");
  set_log_level(LogLevel::off);
  EXPECT_EQ(written(LogLevel::error, "hidden"), "");
}

TEST_F(LogTest, LongTextIsCutAndStillEndsItsLine) {
  const std::string line = written(LogLevel::warn, std::string(10000, 'x'));
  EXPECT_LT(line.size(), 5000u);
  EXPECT_EQ(line.back(), '\n');
}

TEST_F(LogTest, AHandlerTakesTheLines) {
  std::vector<std::pair<LogLevel, std::string>> lines;
  set_log_handler([&](LogLevel level, std::string_view text) {
    lines.emplace_back(level, text);
    if (text == "throw") throw std::runtime_error("which is dropped");
  });
  EXPECT_EQ(written(LogLevel::warn, "slow", 3), "");
  EXPECT_EQ(written(LogLevel::info, "hidden"), "");
  EXPECT_EQ(written(LogLevel::error, "throw"), "");
  testing::internal::CaptureStderr();
  say("asked for");
  set_log_handler({});
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  const std::vector<std::pair<LogLevel, std::string>> expected = {
      {LogLevel::warn, "[rank 3] slow"}, {LogLevel::error, "throw"}, {LogLevel::info, "asked for"}};
  EXPECT_EQ(lines, expected);
  EXPECT_EQ(written(LogLevel::warn, "again"), "tutti warning: again\n");
}

// The handler is changed while other threads log: each line goes to one of the handlers, or to stderr.
TEST_F(LogTest, AHandlerIsChangedUnderWay) {
  std::atomic<int> told{0};
  std::atomic<bool> over{false};
  testing::internal::CaptureStderr();
  std::thread other([&] {
    for (int i = 0; i < 200; ++i) log(LogLevel::warn, "x");
    over = true;
  });
  while (!over) {
    set_log_handler([&told](LogLevel, std::string_view) { ++told; });
    set_log_handler({});
  }
  other.join();
  const std::string rest = testing::internal::GetCapturedStderr();
  EXPECT_EQ(told + std::ranges::count(rest, '\n'), 200);
}

TEST_F(LogTest, ParsesItsLevels) {
  EXPECT_EQ(parse_log_level("off"), LogLevel::off);
  EXPECT_EQ(parse_log_level("warn"), LogLevel::warn);
  EXPECT_EQ(parse_log_level("debug"), LogLevel::debug);
  EXPECT_EQ(parse_log_level("warning"), std::nullopt);
  EXPECT_EQ(parse_log_level(""), std::nullopt);
}

}  // namespace
}  // namespace tutti
