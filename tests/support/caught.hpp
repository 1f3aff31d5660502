// The tutti::Error that a call throws.
#pragma once

#include <gtest/gtest.h>

#include "tutti/status.hpp"

namespace tutti::testing {

template <typename Call>
Error caught(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "no tutti::Error was thrown";
  return Error(Code::internal, "nothing was thrown");
}

}  // namespace tutti::testing
