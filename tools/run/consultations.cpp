#include "tools/run/consultations.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <utility>

#include "collectives/doctor/letter.hpp"
#include "collectives/doctor/opinion.hpp"
#include "tools/command.hpp"
#include "transports/core/printable.hpp"
#include "tutti/log.hpp"
#include "tutti/status.hpp"

namespace tutti::tools {
namespace {

constexpr Seconds patience_with_hosts(3), patience_with_doctor(10), between_rounds(0.03);
constexpr std::size_t most_doctors = 16, most_rounds = 3;
constexpr int most_calls_of_all = 1 << 16, most_calls_of_one = 256, least_calls_of_one = 16;

std::int64_t steady_now() noexcept {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch()).count();
}

}  // namespace

AbstractAddress::AbstractAddress(std::string_view name) {
  bytes.sun_family = AF_UNIX;
  const std::size_t length = std::min(name.size(), sizeof bytes.sun_path - 1);
  std::memcpy(bytes.sun_path + 1, name.data(), length);  // the first byte stays zero: no file
  size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
}

bool is_own_user(int socket) noexcept {
  ucred peer = {};
  socklen_t length = sizeof peer;
  return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && peer.uid == geteuid();
}

void Consultations::open(const Job& job, std::size_t here) {
  hosts_ = job.hosts;
  here_ = here;
  answers_.resize(hosts_.size());
  most_calls_ = std::clamp(most_calls_of_all / std::max(job.ranks, 1), least_calls_of_one, most_calls_of_one);
  greeting_ = fmt::format("{}{} {}\n", launcher_greeting, version(), printable(job.variable("TUTTI_JOB"), 120));
  Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const AbstractAddress own(fmt::format("{}{}", launcher_socket, getpid()));
  if (!socket || bind(socket.fd(), reinterpret_cast<const sockaddr*>(&own.bytes), own.size) != 0 ||
      ::listen(socket.fd(), static_cast<int>(most_doctors)) != 0)
    return log(LogLevel::info, fmt::format("`tutti doctor` will see the ranks of one host only: no socket for it: {}",
                                           std::strerror(errno)));
  socket_ = std::move(socket);
}

void Consultations::watch(std::vector<pollfd>& entries) const {
  entries.push_back({socket_.fd(), POLLIN, 0});
  for (const Doctor& one : doctors_) one.channel->watch(entries);
}

void Consultations::serve(std::span<const pollfd> entries, const Ways& ways) {
  if (!socket_) return;
  std::size_t next = 1;
  for (Doctor& one : doctors_) {  // those for which watch() has appended entries
    listen(one, entries[next]);
    next += 2;
  }
  if (entries[0].revents != 0) accept();
  const Deadline now = Clock::now();
  if (begun_ != never) {
    if (now >= next_round_) ask_time(ways);
    if (all_answered() || now >= until_) finish(ways);
  }
  for (Doctor& one : doctors_) {
    one.channel->flush();
    if (now >= one.until) one.channel.reset();
    if (one.channel && one.state == Doctor::State::told && !one.channel->pending()) one.channel.reset();
  }
  std::erase_if(doctors_, [](const Doctor& one) { return !one.channel; });
  if (begun_ == never &&
      std::ranges::any_of(doctors_, [](const Doctor& one) { return one.state == Doctor::State::waits; }))
    begin(ways);
}

Deadline Consultations::next_look() const {
  Deadline first = std::min(until_, next_round_);
  for (const Doctor& one : doctors_) first = std::min(first, one.until);
  return first;
}

void Consultations::accept() {
  while (true) {
    Descriptor caller(accept4(socket_.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!caller) return;
    if (!is_own_user(caller.fd()) || doctors_.size() >= most_doctors) continue;
    Doctor& one = doctors_.emplace_back();
    one.until = deadline_in(patience_with_doctor);
    one.channel = std::make_unique<Channel>(std::move(caller), Descriptor(), "");
    one.channel->greet(greeting_);
  }
}

void Consultations::listen(Doctor& doctor, const pollfd& entry) {
  if (entry.revents == 0) return;
  try {
    const bool there = doctor.channel->receive();
    while (const auto frame = doctor.channel->next())
      if (frame->say == Say::ask && doctor.state == Doctor::State::greeted) doctor.state = Doctor::State::waits;
    if (!there) doctor.until = Clock::now();
  } catch (const Error&) {  // it is no doctor of this version
    doctor.until = Clock::now();
  }
}

void Consultations::begin(const Ways& ways) {
  for (Doctor& one : doctors_)
    if (one.state == Doctor::State::waits) {
      one.state = Doctor::State::listens;
      one.until = deadline_in(patience_with_hosts + patience_with_doctor);
    }
  for (Answers& one : answers_) one = {.lost = std::move(one.lost)};
  begun_ = Clock::now();
  until_ = deadline_in(patience_with_hosts);
  rounds_ = 0;
  ask_time(ways);
  ways.say({Say::ask, most_calls_, ++question_, {}});
}

/// Asks for the time of all hosts. The answer that comes soonest tells it best.
void Consultations::ask_time(const Ways& ways) {
  ways.say({Say::clock, 0, steady_now(), {}});
  next_round_ = ++rounds_ < most_rounds ? deadline_in(between_rounds) : never;
}

bool Consultations::all_answered() const {
  return next_round_ == never &&
         std::ranges::all_of(answers_, [](const Answers& one) { return one.examined || !one.lost.empty(); });
}

void Consultations::take(const Frame& frame) {
  if (begun_ == never) return;
  if (frame.say == Say::clock) {
    Answers& host = answers_[static_cast<std::size_t>(frame.subject)];
    const doctor::Time error = (steady_now() - frame.number) / 2;
    std::int64_t there = -1;
    const auto [end, problem] = std::from_chars(frame.text.data(), frame.text.data() + frame.text.size(), there);
    const bool is_time = problem == std::errc() && end == frame.text.data() + frame.text.size() && there >= 0;
    if (!is_time || (host.error >= 0 && host.error <= error)) return;
    host.ahead = there - (doctor::real_now() - error);
    host.error = error;
  }
  if (frame.number != question_) return;
  if (frame.say == Say::patient) tell(frame);
  if (frame.say == Say::examined) answers_[static_cast<std::size_t>(frame.subject)].examined = true;
}

void Consultations::lose(std::size_t host, const std::string& why) { answers_[host].lost = why; }

void Consultations::tell(const Frame& frame) {
  for (Doctor& one : doctors_)
    if (one.state == Doctor::State::listens) one.channel->say(frame);
}

void Consultations::finish(const Ways& ways) {
  const auto nanoseconds = [](auto time) { return std::chrono::duration_cast<std::chrono::nanoseconds>(time).count(); };
  for (std::size_t i = 0; i < hosts_.size(); ++i) {
    doctor::AskedHost host{.name = hosts_[i].name, .ranks = hosts_[i].ranks};
    host.answers = answers_[i].examined;
    host.here = i < here_;
    host.why = printable(answers_[i].lost, 300);
    const bool measured = answers_[i].error >= 0 || host.here;  // its own clock needs no measurement
    host.ahead = host.here ? 0 : answers_[i].ahead;
    host.error = !measured ? nanoseconds(patience_with_hosts) : host.here ? 0 : answers_[i].error;
    if (const Deadline heard = ways.heard_host(i); !host.answers && heard != never)
      host.silent_for = nanoseconds(Clock::now() - heard);
    tell({Say::host, static_cast<std::int32_t>(i), question_, letter_of(host)});
  }
  tell({Say::examined, 0, question_, {}});
  for (Doctor& one : doctors_)
    if (one.state == Doctor::State::listens) {
      one.state = Doctor::State::told;
      one.until = deadline_in(patience_with_doctor);
    }
  begun_ = until_ = next_round_ = never;
}

}  // namespace tutti::tools
