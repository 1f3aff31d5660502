#include "transports/core/open_files.hpp"

#include <sys/resource.h>

#include <cerrno>
#include <limits>

namespace tutti {
namespace {

std::string advice(std::size_t needed) {
  return "raise the limit (ulimit -Hn " + std::to_string(needed) + ") where the job is started";
}

}  // namespace

void raise_limit_of_open_files() noexcept {
  rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  static_cast<void>(::setrlimit(RLIMIT_NOFILE, &limit));  // if it is refused, the old limit may do
}

std::size_t limit_of_open_files() noexcept {
  rlimit limit = {};
  return ::getrlimit(RLIMIT_NOFILE, &limit) == 0 ? static_cast<std::size_t>(limit.rlim_cur)
                                                 : std::numeric_limits<std::size_t>::max();
}

std::string about_open_files(int error, std::size_t more) {
  if (error == ENFILE) return "This host has no more open files to give: raise fs.file-max (sysctl).";
  if (error != EMFILE) return {};
  constexpr std::size_t for_the_program = 32;  // files that the program opens and closes meanwhile
  const std::size_t limit = limit_of_open_files(), needed = limit + more + for_the_program;
  return "This process has as many files open as it may, " + std::to_string(limit) + ", and needs " +
         std::to_string(needed) + ": " + advice(needed) + ".";
}

std::string too_few_open_files(std::size_t needed) {
  const std::size_t limit = limit_of_open_files();
  if (limit >= needed) return {};
  return "this process may have " + std::to_string(limit) + " files open, and needs " + std::to_string(needed) + ": " +
         advice(needed);
}

}  // namespace tutti
