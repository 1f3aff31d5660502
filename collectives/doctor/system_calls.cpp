#include "collectives/doctor/system_calls.hpp"

#include <sys/syscall.h>

namespace tutti::doctor {
namespace {

struct Named {
  long number;
  const char* name;
};

// Not every processor has every call, and an old kernel's headers lack the youngest.
constexpr Named table[] = {
    {SYS_read, "read"},
    {SYS_write, "write"},
    {SYS_readv, "readv"},
    {SYS_writev, "writev"},
    {SYS_pread64, "pread64"},
    {SYS_pwrite64, "pwrite64"},
    {SYS_preadv, "preadv"},
    {SYS_pwritev, "pwritev"},
#ifdef SYS_poll
    {SYS_poll, "poll"},
#endif
    {SYS_ppoll, "ppoll"},
#ifdef SYS_select
    {SYS_select, "select"},
#endif
    {SYS_pselect6, "pselect6"},
#ifdef SYS_epoll_wait
    {SYS_epoll_wait, "epoll_wait"},
#endif
    {SYS_epoll_pwait, "epoll_pwait"},
#ifdef SYS_epoll_pwait2
    {SYS_epoll_pwait2, "epoll_pwait2"},
#endif
    {SYS_futex, "futex"},
#ifdef SYS_futex_waitv
    {SYS_futex_waitv, "futex_waitv"},
#endif
    {SYS_nanosleep, "nanosleep"},
    {SYS_clock_nanosleep, "clock_nanosleep"},
    {SYS_wait4, "wait4"},
    {SYS_waitid, "waitid"},
#ifdef SYS_pause
    {SYS_pause, "pause"},
#endif
    {SYS_rt_sigsuspend, "rt_sigsuspend"},
    {SYS_rt_sigtimedwait, "rt_sigtimedwait"},
    {SYS_recvfrom, "recvfrom"},
    {SYS_recvmsg, "recvmsg"},
    {SYS_recvmmsg, "recvmmsg"},
    {SYS_sendto, "sendto"},
    {SYS_sendmsg, "sendmsg"},
    {SYS_sendmmsg, "sendmmsg"},
    {SYS_accept, "accept"},
    {SYS_accept4, "accept4"},
    {SYS_connect, "connect"},
    {SYS_flock, "flock"},
    {SYS_fcntl, "fcntl"},
    {SYS_fsync, "fsync"},
    {SYS_fdatasync, "fdatasync"},
    {SYS_msync, "msync"},
    {SYS_sync, "sync"},
    {SYS_syncfs, "syncfs"},
#ifdef SYS_open
    {SYS_open, "open"},
#endif
    {SYS_openat, "openat"},
    {SYS_close, "close"},
    {SYS_ioctl, "ioctl"},
    {SYS_io_uring_enter, "io_uring_enter"},
    {SYS_io_getevents, "io_getevents"},
    {SYS_sched_yield, "sched_yield"},
    {SYS_mmap, "mmap"},
    {SYS_munmap, "munmap"},
    {SYS_mremap, "mremap"},
    {SYS_mprotect, "mprotect"},
    {SYS_brk, "brk"},
    {SYS_madvise, "madvise"},
    {SYS_mlock, "mlock"},
    {SYS_process_vm_readv, "process_vm_readv"},
    {SYS_process_vm_writev, "process_vm_writev"},
    {SYS_splice, "splice"},
    {SYS_sendfile, "sendfile"},
    {SYS_copy_file_range, "copy_file_range"},
    {SYS_ftruncate, "ftruncate"},
    {SYS_fallocate, "fallocate"},
#ifdef SYS_stat
    {SYS_stat, "stat"},
#endif
    {SYS_newfstatat, "newfstatat"},
    {SYS_fstat, "fstat"},
    {SYS_statx, "statx"},
    {SYS_getdents64, "getdents64"},
#ifdef SYS_unlink
    {SYS_unlink, "unlink"},
#endif
    {SYS_unlinkat, "unlinkat"},
#ifdef SYS_rename
    {SYS_rename, "rename"},
#endif
    {SYS_clone, "clone"},
#ifdef SYS_clone3
    {SYS_clone3, "clone3"},
#endif
#ifdef SYS_vfork
    {SYS_vfork, "vfork"},
#endif
    {SYS_execve, "execve"},
    {SYS_exit, "exit"},
    {SYS_exit_group, "exit_group"},
    {SYS_restart_syscall, "restart_syscall"},
    {SYS_semop, "semop"},
    {SYS_semtimedop, "semtimedop"},
    {SYS_msgrcv, "msgrcv"},
    {SYS_msgsnd, "msgsnd"},
    {SYS_mq_timedreceive, "mq_timedreceive"},
    {SYS_mq_timedsend, "mq_timedsend"},
    {SYS_ptrace, "ptrace"},
    {SYS_membarrier, "membarrier"},
};

}  // namespace

std::string call_name(long number) {
  for (const Named& one : table)
    if (one.number == number) return one.name;
  return "system call " + std::to_string(number);
}

}  // namespace tutti::doctor
