// Finds the working directory, the program and the store.
#include "tools/agent/preparation.hpp"

#include <fmt/core.h>
#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "collectives/bootstrap/store_url.hpp"
#include "tools/run/program.hpp"
#include "transports/core/host.hpp"
#include "tutti/status.hpp"

namespace tutti::tools {
namespace {

constexpr Seconds longest_attempt(4);

/// Returns the first of the launcher's addresses at which this host reaches the store; empty if there is none. Tries
/// all addresses in turn, again and again. The time for one attempt is 0.25 s plus 1 ms per rank at first, and doubles
/// up to 4 s. An attempt at an unreachable address takes all of its time and cannot be interrupted.
std::string find_store(const Job& job, const std::function<bool()>& gone) {
  const Deadline until = deadline_in(Seconds(0.8 * job.start_patience));
  const std::string& secret = job.variables.at("TUTTI_SECRET");
  for (Seconds patience(0.25 + job.ranks / 1000.0); Clock::now() < until && !gone();
       patience = std::min(2 * patience, longest_attempt))
    for (const std::string& url : job.stores) {
      if (gone()) return {};
      try {
        const StoreUrl place = parse_store_url(url);
        connect_tcp_store_once(place.host, place.port, secret, std::min(until, deadline_in(patience)));
        return url;
      } catch (const Error&) {
        // try the next address
      }
    }
  return {};
}

}  // namespace

std::optional<Trouble> prepare_job(Job& job, const std::string& folder, const std::function<bool()>& gone) {
  if (chdir(folder.c_str()) != 0)
    return Trouble{fmt::format("cannot enter the folder {}: {}; start `tutti run` in one that all hosts have", folder,
                               std::strerror(errno)),
                   exit_not_found};
  job.file = find_program(job.words.front());
  if (job.file.empty()) {
    const bool missing = errno == ENOENT || errno == ENOTDIR;
    return Trouble{fmt::format("cannot run '{}': {}", job.words.front(),
                               missing ? "no such program in that folder or on its PATH" : std::strerror(errno)),
                   missing ? exit_not_found : exit_not_executable};
  }
  if (!job.stores.empty()) {
    const std::string url = find_store(job, gone);
    if (url.empty())
      return Trouble{fmt::format("it reaches the launcher at none of {}; name an address that it reaches by --address",
                                 fmt::join(job.stores, ", ")),
                     exit_host_lost};
    job.variables["TUTTI_STORE"] = url;
  }
  if (!std::getenv("OMP_NUM_THREADS"))
    job.variables.try_emplace(
        "OMP_NUM_THREADS",
        std::to_string(job.bind ? 1 : std::max(1, usable_cores() / static_cast<int>(job.here.size()))));
  return std::nullopt;
}

Preparation::Preparation(Job job, std::string folder)
    : job_(std::move(job)), done_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!done_) throw Error(Code::resource, std::string("eventfd: ") + std::strerror(errno));
  thread_ = std::thread([this, folder = std::move(folder)] {
    trouble_ = prepare_job(job_, folder, [this] { return gone_.load(); });
    eventfd_write(done_.fd(), 1);
  });
}

Preparation::~Preparation() {
  gone_ = true;
  if (thread_.joinable()) thread_.join();
}

std::optional<Trouble> Preparation::wait(Job& job) {
  thread_.join();
  job = std::move(job_);
  return std::move(trouble_);
}

}  // namespace tutti::tools
