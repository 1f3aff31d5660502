// What numbers mean for a job: verdicts of `tutti doctor --host` that follow from numbers alone.
#pragma once

#include <string>
#include <string_view>

#include "tools/doctor/check.hpp"
#include "tools/doctor/facts.hpp"

namespace tutti::tools {

/// "2.5 GiB", "512 bytes".
std::string size_text(std::uint64_t bytes);

/// `hard` of UINT64_MAX is no limit.
Check judge_open_files(std::uint64_t soft, std::uint64_t hard);
Check judge_locked_memory(std::uint64_t bytes, bool has_rdma);

/// How many more processes and threads may be started, and which limit that is.
struct Room {
  std::uint64_t more = 0;
  std::string limit;  ///< "pids.max of its control group"
};
Check judge_processes(const Room& room, int cores);

struct CoreFacts {
  int usable = 1, allowed = 1, online = 1;
  double quota = 0;           ///< in cores; infinite: none
  int threads_of_core = 1;    ///< hardware threads of each physical core
  std::string governor = {};  ///< empty: not told
  std::string driver = {};    ///< of the frequency
};
Check judge_cores(const CoreFacts& facts);
Check judge_frequency(const CoreFacts& facts);
Check judge_load(double load, int online);
/// `now` and `since_start` are shares of the time, 0 to 1, that other guests of the machine took.
Check judge_steal(double now, double since_start);

Check judge_clock(const std::string& source, double nanoseconds);
/// `error` is in seconds.
Check judge_synchronisation(bool known, bool synchronised, double error);

/// The words chosen in transparent_hugepage/enabled and shmem_enabled.
Check judge_huge_pages(const std::string& enabled, const std::string& shared);
Check judge_memory(std::uint64_t available, std::uint64_t total, const GroupLimit& group);
Check judge_shared_space(const std::string& folder, std::uint64_t free_bytes, bool has_memfd);

/// `release` as uname prints it.
Check judge_kernel(const std::string& release);

/// `rmem` and `wmem` are the texts of tcp_rmem and tcp_wmem: least, initial, most.
Check judge_tcp_buffers(std::string_view rmem, std::string_view wmem);
Check judge_backlog(std::uint64_t most);
/// `range` is the text of ip_local_port_range.
Check judge_ports(std::string_view range);

/// The result of reading the memory of another process of this user; `error` 0: it worked.
Check judge_attach(int error, const std::string& scope);

}  // namespace tutti::tools
