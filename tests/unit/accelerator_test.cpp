// The accelerator that a program gets on a machine without devices.
#include <gtest/gtest.h>

#include "transports/accelerators.hpp"

namespace tutti {
namespace {

TEST(Accelerator, WithoutDevicesSaysWhyAndRefusesWithIt) {
  Settings settings;
  settings.accelerator = "none";
  Accelerator& none = accelerator(settings);
  EXPECT_EQ(none.why_not(), "the setting accelerator is none");
  EXPECT_TRUE(none.devices().empty());
  int on_host = 0;
  EXPECT_EQ(none.device_of(&on_host), Device{});
  try {
    none.allocate(0, 16);
    FAIL() << "memory of no device";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::unsupported);
    EXPECT_STREQ(error.what(), "no device: the setting accelerator is none");
  }
  EXPECT_EQ(&accelerator(), &none) << "it is chosen once for the process";
}

}  // namespace
}  // namespace tutti
