#include "tools/run/branches.hpp"

#include <fmt/core.h>
#include <sys/wait.h>

#include <algorithm>

#include "tools/run/job_text.hpp"
#include "tutti/status.hpp"

namespace tutti::tools {

std::optional<Trouble> Branches::start(const Job& job, Below below, const std::string& folder) {
  silence_ = job.silence;
  start_patience_ = job.start_patience;
  if (const std::string why = too_few_descriptors(2 * below.parts.size()); !why.empty())
    return Trouble{why + "; or start fewer hosts from here by --fan-out", exit_not_executable};
  claims_.emplace(below.parts, job.hosts, below.first);
  const auto most = static_cast<std::size_t>(job.fan_out);
  for (const Branch& part : below.parts) {
    const auto begin = job.hosts.begin() + static_cast<std::ptrdiff_t>(part.first - below.first);
    const std::size_t index = links_.size();
    HostLink& link = links_.emplace_back(part, height(part.count, most), error_, waits_, index);
    if (const std::string why = link.start(job, *begin, index >= below.leaves); !why.empty())
      return Trouble{why, exit_not_found};
    guard_.watch(link.pid());
    Job portion = job;
    portion.place = part.first;
    portion.hosts.assign(begin, begin + static_cast<std::ptrdiff_t>(part.count));
    link.channel().say({Say::job, 0, 0, job_text(portion, folder)});
    link.watch();
    next_look_ = std::min(next_look_, link.next_look(silence_, start_patience_));
  }
  return std::nullopt;
}

void Branches::say(const Frame& frame) {
  if (!claims_) return;
  claims_->tell(frame);
  for (HostLink& link : links_) {
    if (!link.usable()) continue;
    link.channel().say(frame);
    link.watch();
  }
}

bool Branches::say_to(int rank, const Frame& frame) {
  if (!claims_ || !claims_->has(rank)) return false;
  HostLink& link = links_[claims_->branch_of(rank)];
  if (!link.usable()) return false;
  claims_->tell(frame);
  link.channel().say(frame);
  link.watch();
  return true;
}

Deadline Branches::heard(std::size_t host) const {
  for (const HostLink& link : links_)
    if (link.branch().first == host && link.usable()) return link.heard();
  return never;
}

void Branches::serve(const Up& up) {
  for (const Readiness::Ready& ready : waits_.ready()) {
    HostLink& link = links_[ready.tag / 2];
    if (ready.tag % 2 == 0)
      link.serve(ready.events);
    else
      link.read_error();
    touch(ready.tag / 2);
  }
  if (std::exchange(error_full_, error_.full()) && !error_.full())
    for (std::size_t i = 0; i < links_.size(); ++i) touch(i);
  const bool all = Clock::now() >= next_look_;
  if (all) {
    touched_.clear();
    for (std::size_t i = 0; i < links_.size(); ++i) touch(i);
    next_look_ = never;
  }
  for (const std::size_t index : std::exchange(touched_, {})) look(index, up);
}

/// Handles a link's frames, sends its heartbeat, and checks whether it is lost.
void Branches::look(std::size_t index, const Up& up) {
  HostLink& link = links_[index];
  take(index, up);
  link.keep_alive(silence_);
  if (link.usable()) {
    if (link.closed()) link.read_error();  // stderr may explain the loss
    if (const std::string why = link.lost(silence_, start_patience_); !why.empty()) {
      leave(index, true);
      const Branch& branch = link.branch();
      up({Say::lost, static_cast<std::int32_t>(branch.first), static_cast<std::int64_t>(branch.count), why});
    }
  }
  link.watch();
  next_look_ = std::min(next_look_, link.next_look(silence_, start_patience_));
}

void Branches::take(std::size_t index, const Up& up) {
  HostLink& link = links_[index];
  try {
    while (link.usable()) {
      auto frame = link.channel().next();
      if (!frame) return;
      take(index, std::move(*frame), up);
    }
  } catch (const Error& error) {
    if (error.code() != Code::protocol) throw;
    leave(index, true);
    up({Say::refused, static_cast<std::int32_t>(link.branch().first), exit_host_lost,
        fmt::format("its agent is not to be believed: {}", error.what())});
  }
}

void Branches::take(std::size_t index, Frame&& frame, const Up& up) {
  HostLink& link = links_[index];
  switch (frame.say) {
    case Say::alive: return;
    case Say::ready:
      if (!link.ready()) ++ready_;
      return link.be_ready();
    case Say::goodbye:
      if (!claims_->ending()) throw Error(Code::protocol, "it leaves before the job has ended");
      return leave(index, false);
    default: claims_->take(index, frame); up(std::move(frame));
  }
}

void Branches::leave(std::size_t index, bool killed) {
  HostLink& link = links_[index];
  if (link.over()) return;
  ++over_;
  if (killed)
    link.kill();
  else
    link.finish();
}

Deadline Branches::next_look() const { return touched_.empty() ? next_look_ : Deadline(); }

bool Branches::reaped(pid_t pid, int status) {
  for (std::size_t i = 0; i < links_.size(); ++i) {
    if (!links_[i].has_process() || links_[i].pid() != pid) continue;
    if (WIFSTOPPED(status) || WIFCONTINUED(status)) return true;
    links_[i].reaped(status);
    guard_.forget(pid);
    touch(i);
    return true;
  }
  return false;
}

void Branches::kill() {
  for (std::size_t i = 0; i < links_.size(); ++i) leave(i, true);
}

std::vector<pid_t> Branches::pids() const {
  std::vector<pid_t> all;
  for (const HostLink& link : links_)
    if (link.has_process()) all.push_back(link.pid());
  return all;
}

}  // namespace tutti::tools
