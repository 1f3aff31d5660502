// Output is written in whole lines of one rank at a time.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <optional>
#include <string>

#include "tests/support/temporary_folder.hpp"
#include "tools/run/rank_output.hpp"

namespace tutti::tools {
namespace {

class Lines : public ::testing::Test {
 protected:
  Lines() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) std::abort();
    reading_ = Descriptor(ends[0]);
    writing_ = Descriptor(ends[1]);
    sink_.emplace(writing_.fd());
  }

  std::string seen() const {
    std::string text(1 << 16, '\0');
    const ssize_t n = read(reading_.fd(), text.data(), text.size());
    text.resize(n < 0 ? 0 : static_cast<std::size_t>(n));
    return text;
  }

  /// Acts as if nothing had been added for a long time.
  static void wait(RankLines& lines) { lines.flush_if_due(deadline_in(Seconds(3600))); }

  Descriptor reading_, writing_;
  std::optional<Sink> sink_;
};

TEST_F(Lines, PiecesOfTwoRanksDoNotMix) {
  RankLines a(*sink_, ""), b(*sink_, "");
  a.put("a begins");
  b.put("b begins");
  EXPECT_EQ(seen(), "");
  b.put(", b ends\nb again");
  EXPECT_EQ(seen(), "b begins, b ends\n");
  a.put("\na\na");
  EXPECT_EQ(seen(), "a begins\na\n");
  a.end();
  b.end();
  EXPECT_EQ(seen(), "a\nb again");
  EXPECT_EQ(a.due(), never);
}

TEST_F(Lines, WithTagsTheLastLineIsEnded) {
  RankLines a(*sink_, "[0] "), b(*sink_, "[1] ");
  a.put("one\n\ntwo");
  b.put("three");
  a.end();
  b.end();
  b.end();
  EXPECT_EQ(seen(), "[0] one\n[0] \n[0] two\n[1] three\n");
}

TEST_F(Lines, AnIncompleteLineIsShownAndThenKeptForAWhile) {
  RankLines a(*sink_, ""), b(*sink_, "");
  a.put("name? ");
  EXPECT_EQ(seen(), "");
  EXPECT_NE(a.due(), never);
  wait(a);
  EXPECT_EQ(seen(), "name? ");
  EXPECT_EQ(a.due(), never);
  b.put("hello\n");  // waits for the end of a's line
  EXPECT_EQ(seen(), "");
  EXPECT_NE(b.due(), never);
  a.put("thanks\n");
  EXPECT_EQ(seen(), "thanks\n");
  b.flush_if_due(Clock::now());  // at once, because a's line has ended
  EXPECT_EQ(seen(), "hello\n");
}

TEST_F(Lines, WhoWaitsTooLongBeginsANewLine) {
  RankLines a(*sink_, "[0] "), b(*sink_, "[1] ");
  a.put("step 1 ... ");
  wait(a);
  b.put("hello\n");
  wait(b);
  EXPECT_EQ(seen(), "[0] step 1 ... \n[1] hello\n");
  a.put("done\n");
  EXPECT_EQ(seen(), "[0] done\n");
  b.put("and");
  wait(b);
  b.put(" so on\n");
  EXPECT_EQ(seen(), "[1] and so on\n");
}

TEST_F(Lines, TheLaunchersWordsBeginALine) {
  RankLines a(*sink_, "");
  a.put("half");
  wait(a);
  sink_->put("tutti run: rank 1 has ended\n");
  a.put(" a line\n");
  EXPECT_EQ(seen(), "half\ntutti run: rank 1 has ended\n a line\n");
}

TEST_F(Lines, ThoseWhoWaitAreNotReadForEver) {
  RankLines a(*sink_, ""), b(*sink_, "");
  a.put("open");
  wait(a);
  EXPECT_FALSE(b.full());
  b.put(std::string(100000, 'x') + "\n");
  EXPECT_TRUE(b.full());  // its output is no longer read, so the rank blocks
  wait(b);
  EXPECT_FALSE(b.full());
}

TEST(LinesInAFile, AreAlwaysWhole) {
  const testing::TemporaryFolder folder;
  const std::string path = folder.path() + "/log";
  const Descriptor file(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  Sink sink(file.fd());
  RankLines a(sink, ""), b(sink, "");
  a.put("step 1 ... ");
  EXPECT_EQ(a.due(), never);  // incomplete lines are not shown in a file
  b.put("hello\n");
  a.put("done\n");
  std::string text(100, '\0');
  text.resize(static_cast<std::size_t>(pread(file.fd(), text.data(), text.size(), 0)));
  EXPECT_EQ(text, "hello\nstep 1 ... done\n");
}

}  // namespace
}  // namespace tutti::tools
