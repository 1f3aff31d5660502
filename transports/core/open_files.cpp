#include "transports/core/open_files.hpp"

#include <sys/resource.h>

#include <cerrno>

namespace tutti {

void raise_limit_of_open_files() noexcept {
  rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  static_cast<void>(::setrlimit(RLIMIT_NOFILE, &limit));  // if it is refused, the old limit may do
}

std::string about_open_files(int error, std::size_t needed) {
  constexpr std::size_t of_the_program = 64;
  if (error == ENFILE) return "This host has no more open files to give: raise fs.file-max (sysctl).";
  rlimit limit = {};
  if (error != EMFILE || ::getrlimit(RLIMIT_NOFILE, &limit) != 0) return {};
  return "This process may have " + std::to_string(limit.rlim_cur) + " files open, and may need " +
         std::to_string(needed + of_the_program) + " for this job: raise the limit (ulimit -Hn " +
         std::to_string(needed + of_the_program) + ") where it is started.";
}

}  // namespace tutti
