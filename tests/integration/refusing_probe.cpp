// Executes a program in which the kernel refuses system calls, as a container's seccomp filter does.
//
//   refusing_probe ERRNO NAMES WORDS...    NAMES: getrandom, populate (madvise with MADV_POPULATE_WRITE), ...
//
// Exits with 77 where filters cannot be set.
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

namespace {

constexpr unsigned populate_write = 23;

sock_filter load(std::size_t offset) { return BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<unsigned>(offset)); }

/// The system call `call` fails with `error`; if `advice` is not 0, only calls with this third argument fail.
void refuse(std::vector<sock_filter>& filter, unsigned call, unsigned error, unsigned advice = 0) {
  const unsigned char skipped = advice != 0 ? 3 : 1;
  filter.push_back(load(offsetof(seccomp_data, nr)));
  filter.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, skipped));
  if (advice != 0) {
    filter.push_back(load(offsetof(seccomp_data, args[2])));
    filter.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, advice, 0, 1));
  }
  filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (error & SECCOMP_RET_DATA)));
}

}  // namespace

int main(int count, char** words) {
  if (count < 4) return 2;
  const auto error = static_cast<unsigned>(std::atoi(words[1]));
  std::vector<sock_filter> filter;
  std::istringstream names(words[2]);
  for (std::string name; std::getline(names, name, ',');) {
    if (name == "getrandom") refuse(filter, SYS_getrandom, error);
    if (name == "populate") refuse(filter, SYS_madvise, error, populate_write);
    if (name == "pidfd") refuse(filter, SYS_pidfd_open, error);
    if (name == "copies") refuse(filter, SYS_process_vm_readv, error);
    if (name == "affinity") refuse(filter, SYS_sched_setaffinity, error);
  }
  filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  const sock_fprog program = {static_cast<unsigned short>(filter.size()), filter.data()};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
    std::perror("no filter of system calls can be set here");
    return 77;
  }
  execvp(words[3], words + 3);
  std::perror(words[3]);
  return 127;
}
