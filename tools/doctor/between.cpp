#include "tools/doctor/between.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "tools/command.hpp"
#include "tools/doctor/facts.hpp"
#include "tools/run/addresses.hpp"
#include "tools/run/environment.hpp"
#include "tools/run/host_link.hpp"
#include "tools/run/hosts.hpp"
#include "tools/run/program.hpp"
#include "tools/run/spawn.hpp"
#include "transports/core/host.hpp"
#include "transports/core/printable.hpp"
#include "transports/core/random.hpp"
#include "tutti/status.hpp"

namespace tutti::tools {
namespace {

using enum Check::Verdict;

/// The answering side on another host, and the lines to and from it. The destructor ends it.
class Answerer {
 public:
  /// Throws Error{resource} if it cannot be started.
  Answerer(const std::string& host, const Settings& settings);
  Answerer(const Answerer&) = delete;
  Answerer& operator=(const Answerer&) = delete;
  ~Answerer() {
    talk_.reset();
    if (pid_ <= 0) return;
    ::kill(-pid_, SIGKILL);
    while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }

  void say(const std::string& line) const {
    static_cast<void>(::send(talk_.fd(), (line + "\n").data(), line.size() + 1, MSG_NOSIGNAL));
  }
  /// The next line that begins with the word `first`, or with "done". Serves `door` meanwhile. Throws Error{timeout,
  /// peer_lost}.
  std::vector<std::string> hear(std::initializer_list<std::string_view> first, const Door* door, Deadline until);
  const std::string& command() const noexcept { return command_; }

 private:
  std::string last_error() const;

  std::string command_;
  Descriptor talk_, errors_;
  LineReader lines_{-1};
  pid_t pid_ = -1;
};

Answerer::Answerer(const std::string& host, const Settings& settings) {
  RankProcess process;
  if (!is_this_host(host)) process.words = remote_words(settings.remote_start, host);
  command_ = process.words.empty() ? "a process of this host" : fmt::format("'{}'", fmt::join(process.words, " "));
  for (const std::string& word : {own_program(), std::string("doctor"), std::string("--answer-host-check")})
    process.words.push_back(word);
  process.file = find_executable(process.words.front());
  if (process.file.empty())
    throw Error(Code::resource, fmt::format("{}: {}", process.words.front(), std::strerror(errno)));
  for (char** entry = environ; *entry != nullptr; ++entry) process.environment.emplace_back(*entry);
  int ends[2], pipe[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    throw Error(Code::resource, fmt::format("cannot make a socket: {}", std::strerror(errno)));
  talk_ = Descriptor(ends[0]);
  const Inherited talk(ends[1]);
  if (::pipe2(pipe, O_CLOEXEC) != 0)
    throw Error(Code::resource, fmt::format("cannot make a pipe: {}", std::strerror(errno)));
  errors_ = Descriptor(pipe[0]);
  const Inherited error(pipe[1]);
  for (const int fd : {talk_.fd(), errors_.fd()}) ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
  process.input = process.output = talk.fd();
  process.error = error.fd();
  lines_ = LineReader(talk_.fd());
  pid_ = spawn(process);
  if (pid_ < 0) throw Error(Code::resource, fmt::format("cannot run {}: {}", process.file, std::strerror(-pid_)));
}

std::string Answerer::last_error() const {
  LineReader errors(errors_.fd());
  std::string last;
  while (const auto line = errors.next())
    if (line->find_first_not_of(" \r") != line->npos) last = printable(line->substr(0, line->find('\r')), 300);
  return last.empty() ? "" : " (" + last + ")";
}

std::vector<std::string> Answerer::hear(std::initializer_list<std::string_view> first, const Door* door,
                                        Deadline until) {
  for (;;) {
    if (door != nullptr) door->serve();
    while (const auto line = lines_.next()) {
      std::vector<std::string> words = words_of(printable(*line, 4000));
      if (!words.empty() && std::ranges::find(first, words[0]) != first.end()) return words;
    }
    if (lines_.ended()) {
      pollfd last_words{errors_.fd(), POLLIN, 0};
      ::poll(&last_words, 1, 1000);
      throw Error(Code::peer_lost, command_ + " has ended without an answer" + last_error());
    }
    if (Clock::now() >= until) throw Error(Code::timeout, command_ + " has not answered in time" + last_error());
    pollfd ready[] = {{talk_.fd(), POLLIN, 0}, {door != nullptr ? door->fd() : -1, POLLIN, 0}};
    ::poll(ready, 2, 100);
  }
}

std::string time_text(double seconds) {
  return seconds < 1 ? fmt::format("{:.2g} ms", 1e3 * seconds) : fmt::format("{:.3g} s", seconds);
}

double number(const std::vector<std::string>& words, std::size_t index) {
  return index < words.size() ? std::strtod(words[index].c_str(), nullptr) : 0;
}

/// Addresses of the other machine that are not also addresses of this one, as those of docker0 are.
std::vector<std::string> distinct(std::vector<std::string> theirs, const std::vector<std::string>& ours, bool same) {
  if (!same) std::erase_if(theirs, [&](const std::string& one) { return std::ranges::find(ours, one) != ours.end(); });
  return theirs;
}

std::vector<Knock> knocks_from(Answerer& answerer, const Door& door, const std::vector<std::string>& addresses) {
  answerer.say(fmt::format("knock {} {}", door.port(), fmt::join(addresses, " ")));
  const Deadline until = deadline_in(Seconds(5) + patience_of_knock * static_cast<double>(addresses.size()));
  std::vector<Knock> knocks;
  for (;;) {
    const auto words = answerer.hear({"reached", "blocked", "done"}, &door, until);
    if (words[0] == "done" || knocks.size() >= addresses.size()) return knocks;
    if (words.size() < 3) continue;
    if (words[0] == "reached")
      knocks.push_back({words[1], number(words, 2), {}, false});
    else
      knocks.push_back(
          {words[1], 0, fmt::format("{}", fmt::join(words.begin() + 3, words.end(), " ")), words[2] == "1"});
  }
}

/// Tests both directions with an answerer that has greeted.
std::vector<Check> directions(Answerer& answerer, const std::string& host, bool same, const Settings& settings) {
  std::uint64_t bits[2];
  fill_random(bits, sizeof bits);
  const std::string token = fmt::format("{:016x}{:016x}", bits[0], bits[1]);
  const Door door(token);
  const double asked = time_of_day();
  answerer.say(fmt::format("listen {} {}", token, settings.iface));
  const auto words = answerer.hear({"listening"}, nullptr, deadline_in(Seconds(10)));
  const double doubt = (time_of_day() - asked) / 2, ahead = number(words, 3) - asked - doubt;
  const int port = static_cast<int>(number(words, 1));
  const std::vector<std::string> all(words.begin() + std::min<std::ptrdiff_t>(4, std::ssize(words)), words.end());
  const std::vector<std::string> own = outer_addresses(settings.iface);
  std::vector<Knock> there;
  for (const std::string& address : distinct(all, own, same))
    there.push_back(knock(address, port, token, deadline_in(patience_of_knock)));
  std::string range = line_of("/proc/sys/net/ipv4/ip_local_port_range");
  std::ranges::replace(range, '\t', '-');
  return {judge_direction("here", host, there, words.size() > 2 ? words[2] : ""),
          judge_direction(host, "here", knocks_from(answerer, door, distinct(own, all, same)), range),
          judge_time(host, ahead, doubt)};
}

Check cannot_start(const std::string& host, const std::string& why) {
  return {Check::Verdict::wrong, "start on " + host, why,
          "Check the host's name and TUTTI_REMOTE_START, and that tutti is installed there at the same place."};
}

}  // namespace

Check judge_direction(const std::string& from, const std::string& to, const std::vector<Knock>& knocks,
                      const std::string& range) {
  std::string open, closed;
  bool dropped = false;
  for (const Knock& one : knocks) {
    if (one.why.empty())
      open += fmt::format("{}{} in {:.2f} ms", open.empty() ? "" : ", ", one.address, 1e3 * one.seconds);
    else
      closed += fmt::format("{}{}: {}", closed.empty() ? "" : ", ", one.address, one.why);
    dropped |= one.timed_out;
  }
  Check check{good, fmt::format("tcp {} -> {}", from, to), open, ""};
  if (!closed.empty()) check.found += fmt::format("{}not {}", open.empty() ? "" : "; ", closed);
  if (knocks.empty()) {
    check.found = fmt::format("{} has no address of its own that tcp may use", to);
    check.advice = "Bring a network up there, and check TUTTI_IFACE.";
  } else if (open.empty()) {
    check.advice = fmt::format("{} the way from {} to {}: allow TCP{} there from this network, and check routes.",
                               dropped ? "A firewall or a missing route blocks" : "A firewall refuses", from, to,
                               range.size() > 1 ? " to ports " + range : "");
  } else if (!closed.empty()) {
    check.advice = "Name the networks that work by TUTTI_IFACE, so that ranks do not try the others.";
  }
  if (!closed.empty() || knocks.empty()) check.verdict = open.empty() ? wrong : slower;
  return check;
}

Check judge_time(const std::string& host, double ahead, double doubt) {
  constexpr double tolerable = 0.05;
  const bool far = std::abs(ahead) > tolerable + doubt;
  return {far ? slower : good, "time of " + host,
          fmt::format("{} {} of the time here, give or take {}", time_text(std::abs(ahead)),
                      ahead < 0 ? "behind" : "ahead", time_text(doubt)),
          far ? "Synchronise the clocks (chrony), or times in logs and traces of the two cannot be compared." : ""};
}

std::vector<Check> checks_with(const std::string& given, const Settings& settings) {
  const std::vector<Host> parsed = parse_hosts(given);
  if (parsed.size() != 1) throw Error(Code::invalid, "'" + given + "' names no single host");
  const std::string& host = parsed.front().name;
  try {
    const Deadline began = Clock::now(), until = deadline_in(Seconds(settings.connect_timeout));
    Answerer answerer(host, settings);
    const auto greeting = answerer.hear({answer_greeting}, nullptr, until);
    const double seconds = Seconds(Clock::now() - began).count();
    if (greeting.size() < 3 || greeting[1] != version())
      return {{wrong, "start on " + host,
               fmt::format("its tutti is {}, and this is {}", greeting.size() > 1 ? greeting[1] : "?", version()),
               "Install one version of tutti on all hosts."}};
    std::vector<Check> checks = {
        {good, "start on " + host, fmt::format("works by {}, in {:.2f} s", answerer.command(), seconds), ""}};
    std::ranges::move(directions(answerer, host, greeting[2] == host_identity({}), settings),
                      std::back_inserter(checks));
    return checks;
  } catch (const Error& error) {
    return {cannot_start(host, error.what())};
  }
}

}  // namespace tutti::tools
