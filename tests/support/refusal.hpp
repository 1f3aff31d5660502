// The error text of a call that refuses its arguments.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "tutti/status.hpp"

namespace tutti::testing {

/// The text of the Error{code} that `call` throws, which must be one line.
template <class Call>
std::string refusal(Call&& call, Code code = Code::invalid) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code);
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    return error.what();
  }
  return "nothing was thrown";
}

}  // namespace tutti::testing
