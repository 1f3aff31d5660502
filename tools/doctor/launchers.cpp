#include "tools/doctor/launchers.hpp"

#include <fmt/core.h>
#include <poll.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "collectives/doctor/clocks.hpp"
#include "collectives/doctor/letter.hpp"
#include "tools/command.hpp"
#include "tools/run/consultations.hpp"
#include "tutti/log.hpp"

namespace tutti::tools {
namespace {

constexpr Seconds patience_with_launcher(2), patience_with_answer(12);

/// A launcher that is being asked.
struct Asked {
  std::unique_ptr<Channel> channel;  ///< null: nothing more is expected
  Account account;
  bool asked = false, is_other = false;  ///< is_other: it is not wanted
  Deadline until = deadline_in(patience_with_launcher);
};

/// The pids in the names of the launchers' sockets that are in this network namespace.
std::set<pid_t> listening_launchers() {
  std::set<pid_t> found;
  std::ifstream list("/proc/net/unix");
  const std::string name = "@" + std::string(launcher_socket);
  for (std::string line; std::getline(list, line);) {
    const std::size_t at = line.rfind(name);
    if (at == line.npos) continue;
    pid_t pid = -1;
    std::from_chars(line.data() + at + name.size(), line.data() + line.size(), pid);
    if (pid > 0) found.insert(pid);
  }
  return found;
}

std::optional<Asked> call(pid_t launcher) {
  Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const AbstractAddress there(std::string(launcher_socket) + std::to_string(launcher));
  if (!socket || connect(socket.fd(), reinterpret_cast<const sockaddr*>(&there.bytes), there.size) != 0 ||
      !is_own_user(socket.fd()))
    return std::nullopt;
  Asked one;
  one.account.launcher = launcher;
  one.channel = std::make_unique<Channel>(std::move(socket), Descriptor(), std::string(launcher_greeting));
  return one;
}

/// Reads "VERSION JOB", the rest of the launcher's first line. Returns true if it is to be asked.
bool is_wanted(Asked& one, const std::function<bool(const std::string& job, pid_t launcher)>& wanted) {
  const std::string& greeted = *one.channel->greeted();
  const std::size_t blank = std::min(greeted.find(' '), greeted.size());
  one.account.job = greeted.substr(std::min(blank + 1, greeted.size()));
  if (!wanted(one.account.job, one.account.launcher)) return false;
  if (greeted.substr(0, blank) == version()) return true;
  log(LogLevel::warn,
      fmt::format("the launcher of job {} has tutti {} and this is {}, so its other hosts are not asked: "
                  "use the `tutti` that has started the job",
                  one.account.job, greeted.substr(0, blank), version()));
  return false;
}

/// Handles what has arrived. Returns true while more is expected.
bool listen_to(Asked& one, const std::function<bool(const std::string& job, pid_t launcher)>& wanted) {
  const bool there = one.channel->receive();
  bool over = false;
  for (auto frame = one.channel->next(); frame && !over; frame = one.channel->next())
    over = take_answer(*frame, one.account);
  if (over) return false;
  if (!there) one.is_other = true;  // its job has just ended
  if (!there) return false;
  if (one.asked || !one.channel->greeted()) return true;
  if (!is_wanted(one, wanted)) {
    one.is_other = true;
    return false;
  }
  one.channel->say({Say::ask, 0, 0, {}});
  one.asked = true;
  one.until = deadline_in(patience_with_answer);
  return true;
}

/// A letter that cannot be read is left out: the launcher only passes on what agents write.
void take_patient(const Frame& frame, Account& account) {
  try {
    doctor::Patient one = doctor::read_patient(frame.text);
    if (one.recording.rank != frame.subject)
      throw Error(Code::protocol, fmt::format("it is about rank {}", one.recording.rank));
    account.patients.push_back(std::move(one));
  } catch (const Error& error) {
    log(LogLevel::warn, fmt::format("the records of rank {} are left out: {}", frame.subject, error.what()));
  }
}

}  // namespace

bool take_answer(const Frame& frame, Account& account) {
  constexpr std::size_t most = 1 << 20;
  if (frame.say == Say::host && account.hosts.size() < most) account.hosts.push_back(doctor::read_host(frame.text));
  if (frame.say == Say::patient && account.patients.size() < most) take_patient(frame, account);
  return frame.say == Say::examined;
}

std::vector<Account> ask_launchers(const std::function<bool(const std::string& job, pid_t launcher)>& wanted) {
  std::vector<Asked> all;
  for (const pid_t launcher : listening_launchers())
    if (auto one = call(launcher)) all.push_back(std::move(*one));
  const auto expects = [](const Asked& one) { return one.channel != nullptr; };
  while (std::ranges::any_of(all, expects)) {
    std::vector<pollfd> entries;
    Deadline until = never;
    for (const Asked& one : all) {
      entries.push_back({one.channel ? one.channel->fd() : -1, POLLIN, 0});
      if (one.channel) until = std::min(until, one.until);
    }
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
    poll(entries.data(), entries.size(), static_cast<int>(std::max<std::int64_t>(left, 0)));
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (!all[i].channel) continue;
      try {
        const bool more = entries[i].revents == 0 || listen_to(all[i], wanted);
        if (more && Clock::now() < all[i].until) continue;
      } catch (const Error& error) {
        log(LogLevel::warn,
            fmt::format("the launcher {} is not to be believed: {}", all[i].account.launcher, error.what()));
        all[i].account.hosts.clear();
      }
      all[i].channel.reset();
    }
  }
  std::vector<Account> accounts;
  for (Asked& one : all)
    if (!one.is_other) accounts.push_back(std::move(one.account));
  return accounts;
}

std::vector<doctor::Patient> joined(Account& account, std::vector<doctor::Patient> here) {
  std::vector<doctor::Patient> all;
  int size = 1;
  for (const doctor::AskedHost& host : account.hosts)
    if (!host.ranks.empty()) size = std::max(size, host.ranks.back() + 1);
  for (const doctor::AskedHost& host : account.hosts) {
    const auto of_host = [&](const doctor::Patient& one) {
      return std::ranges::binary_search(host.ranks, one.recording.rank) && one.recording.size <= size;
    };
    std::vector<doctor::Patient>& source = host.here && !host.answers ? here : account.patients;
    for (doctor::Patient& one : source) {
      if (!of_host(one)) continue;
      one.recording.host = host.name;
      all.push_back(std::move(one));
      one.recording.rank = -1;  // a rank has one host
    }
  }
  std::vector<doctor::HostClock> measured;
  for (const doctor::AskedHost& host : account.hosts) measured.push_back({host.name, host.ahead, host.error});
  const std::vector<doctor::HostClock> clocks = doctor::clocks_of(all, measured);
  doctor::align(all, clocks);
  for (const doctor::HostClock& clock : clocks)
    if (const auto host = std::ranges::find(account.hosts, clock.host, &doctor::AskedHost::name);
        host != account.hosts.end())
      host->ahead = clock.ahead;
  return all;
}

}  // namespace tutti::tools
