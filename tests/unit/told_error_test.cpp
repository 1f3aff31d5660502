// An error that a rank sends to others through the store is unchanged there.
#include "transports/core/told_error.hpp"

#include <gtest/gtest.h>

namespace tutti {
namespace {

TEST(ToldError, IsTheSameAfterwards) {
  for (const Error& error : {Error(Code::peer_lost, "rank 3 (pid 17) was killed", 3), Error(Code::resource, "", -1),
                             Error(Code::timeout, "7 8 words\nin two lines", 0)}) {
    const std::optional<Error> told = error_told_in(told_error(error));
    ASSERT_TRUE(told);
    EXPECT_EQ(told->code(), error.code());
    EXPECT_EQ(told->culprit(), error.culprit());
    EXPECT_STREQ(told->what(), error.what());
  }
}

TEST(ToldError, IsInNoOtherValue) {
  for (const char* const value : {"", "=texts", "? 1 2", "error", "1 error 7"}) EXPECT_FALSE(error_told_in(value));
}

TEST(ToldError, OfAnotherVersionIsStillAnError) {
  for (const char* const value : {"error ", "error 999 2 text", "error -1 2 text", "error text"}) {
    const std::optional<Error> told = error_told_in(value);
    ASSERT_TRUE(told) << value;
    EXPECT_EQ(told->code(), Code::protocol) << value;
  }
  EXPECT_STREQ(error_told_in("error 999 2 text")->what(), "text");
  EXPECT_STREQ(error_told_in("error text")->what(), "text");
}

}  // namespace
}  // namespace tutti
