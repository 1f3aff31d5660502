#include "collectives/doctor/sample.hpp"

#include <elf.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <string>
#include <string_view>
#include <thread>

#include "collectives/doctor/proc_text.hpp"
#include "transports/core/process.hpp"
#include "tutti/clock.hpp"

namespace tutti::doctor {
namespace {

constexpr std::size_t most_stack = 64 << 10;
constexpr std::chrono::milliseconds patience(100);

void take(const user_regs_struct& from, Sample& sample) noexcept {
#ifdef __x86_64__
  sample.at = from.rip;
  sample.top = from.rsp;
  const std::uint64_t in_order[] = {from.rax, from.rdx, from.rcx, from.rbx, from.rsi, from.rdi, from.rbp, from.rsp,
                                    from.r8,  from.r9,  from.r10, from.r11, from.r12, from.r13, from.r14, from.r15};
#else
  sample.at = from.pc;
  sample.top = from.sp;
  const auto& in_order = from.regs;
#endif
  std::copy(std::begin(in_order), std::end(in_order), sample.registers.begin());
}

/// Takes the next word of `rest`, a number in hexadecimal with 0x or in decimal.
bool take_number(std::string_view& rest, std::uint64_t& number) noexcept {
  rest.remove_prefix(std::min(rest.find_first_not_of(" \n"), rest.size()));
  const int base = rest.starts_with("0x") ? 16 : 10;
  if (base == 16) rest.remove_prefix(2);
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), number, base);
  if (error != std::errc()) return false;
  rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
  return true;
}

/// Parses a /proc/PID/syscall: "230 0x0 0x0 0x7ffd 0x7ffd 0x0 0x0 0x7ffd1 0x7f12", with call, six arguments, stack and
/// instruction; "-1 0x7ffd1 0x7f12" outside of a call; "running".
Sample parse_call(std::string_view text) noexcept {
  Sample sample;
  std::uint64_t number = 0, arguments[6] = {};
  if (text.starts_with("-1 ")) {
    text.remove_prefix(3);
  } else {
    if (!take_number(text, number) || number > 100000) return {};
    for (std::uint64_t& argument : arguments)
      if (!take_number(text, argument)) return {};
    sample.call = static_cast<long>(number);
    sample.first = arguments[0];
  }
  sample.known = take_number(text, sample.top) && take_number(text, sample.at);
  return sample.known ? sample : Sample{};
}

/// Waits until a thread has stopped for this one, and reads its registers.
bool registers_of(pid_t thread, user_regs_struct& registers) {
  const Deadline until = Clock::now() + patience;
  iovec into{&registers, sizeof registers};
  // Not by waitpid(), which could take the end of a child away from the program's own wait. The request is refused
  // until the thread has stopped.
  while (::ptrace(PTRACE_GETREGSET, thread, NT_PRSTATUS, &into) != 0) {
    if (errno != ESRCH || Clock::now() > until) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  return into.iov_len == sizeof registers;
}

/// The signal that is on its way to the stopped thread, which is to get it nevertheless; 0: none.
int signal_on_its_way(pid_t thread) noexcept {
  siginfo_t why{};
  if (::ptrace(PTRACE_GETSIGINFO, thread, nullptr, &why) != 0) return 0;
  return why.si_code >> 8 == PTRACE_EVENT_STOP ? 0 : why.si_signo;
}

}  // namespace

Sample look_at_waiting(pid_t thread) { return parse_call(text_of(proc_path(thread, "syscall"), 400)); }

Sample look_at_running(pid_t thread, const std::vector<Mapping>& maps) {
  Sample sample;
  if (::ptrace(PTRACE_SEIZE, thread, nullptr, nullptr) != 0) return sample;
  user_regs_struct registers{};
  sample.known = ::ptrace(PTRACE_INTERRUPT, thread, nullptr, nullptr) == 0 && registers_of(thread, registers);
  if (sample.known) {
    take(registers, sample);
    read_stack(thread, maps, sample);
  }
  const auto signal = static_cast<std::intptr_t>(sample.known ? signal_on_its_way(thread) : 0);
  ::ptrace(PTRACE_DETACH, thread, nullptr, reinterpret_cast<void*>(signal));
  return sample;
}

void read_stack(pid_t thread, const std::vector<Mapping>& maps, Sample& sample) {
  const std::uint64_t begin = (sample.top + 7) & ~std::uint64_t{7};
  const Mapping* const mapping = mapping_at(maps, begin);
  if (!sample.known || mapping == nullptr) return;
  sample.stack.resize(std::min<std::uint64_t>(most_stack, mapping->end - begin) / sizeof(std::uint64_t));
  if (read_memory_of(thread, begin, sample.stack.data(), sample.stack.size() * sizeof(std::uint64_t)) != 0)
    sample.stack.clear();
}

}  // namespace tutti::doctor
