// Until a launcher's environment is read: alone. Replaced by bootstrap.cpp.
#include "collectives/bootstrap/bootstrap.hpp"

namespace tutti {

__attribute__((weak)) Bootstrap bootstrap_from_environment(const Settings& settings) {
  Bootstrap bootstrap;
  bootstrap.settings = settings;
  bootstrap.launcher = "alone";
  return bootstrap;
}

}  // namespace tutti
