// The error for a limit of open files that is too low says how many files the job needs.
#include "transports/core/open_files.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cerrno>

namespace tutti {
namespace {

class OpenFiles : public ::testing::Test {
 protected:
  OpenFiles() {
    getrlimit(RLIMIT_NOFILE, &before_);
    set(100);
  }
  ~OpenFiles() override { setrlimit(RLIMIT_NOFILE, &before_); }
  void set(rlim_t soft) {
    rlimit limit = before_;
    limit.rlim_cur = soft;
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  }
  rlimit before_ = {};
};

TEST_F(OpenFiles, AreAskedForBeforehand) {
  EXPECT_EQ(limit_of_open_files(), 100U);
  EXPECT_EQ(too_few_open_files(100), "");
  EXPECT_EQ(too_few_open_files(395),
            "this process may have 100 files open, and needs 395: raise the limit (ulimit -Hn 395) where the job is "
            "started");
}

// The advised number is above the current limit, even if other files are open.
TEST_F(OpenFiles, AreAdvisedWhereOneCannotBeOpened) {
  EXPECT_EQ(about_open_files(EMFILE, 40),
            "This process has as many files open as it may, 100, and needs 172: raise the limit (ulimit -Hn 172) where "
            "the job is started.");
  EXPECT_NE(about_open_files(ENFILE, 1), "");
  EXPECT_EQ(about_open_files(ENOENT, 1), "");
}

TEST_F(OpenFiles, AreRaisedToTheHardLimit) {
  raise_limit_of_open_files();
  EXPECT_EQ(limit_of_open_files(), static_cast<std::size_t>(before_.rlim_max));
}

}  // namespace
}  // namespace tutti
