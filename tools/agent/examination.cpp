#include "tools/agent/examination.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <exception>
#include <utility>

#include "collectives/doctor/letter.hpp"
#include "collectives/doctor/patients.hpp"
#include "tools/run/signals.hpp"

namespace tutti::tools {
namespace {

constexpr unsigned longest_examination = 10;  // seconds
constexpr Seconds time_for_places(1.5);       // the launcher waits for 3 s

std::vector<doctor::Patient> patients_of(const Examination::Subject& subject) {
  std::vector<doctor::Patient> patients = doctor::patients_in(subject.recorder);
  for (doctor::Patient& one : patients) one.source = "/proc/self/fd/" + std::to_string(subject.recorder);
  if (patients.empty())
    for (doctor::FoundJob& found : doctor::find_jobs(subject.job))
      if (found.name == subject.job) patients = std::move(found.patients);
  std::erase_if(patients, [&](const doctor::Patient& one) {
    return !std::binary_search(subject.ranks.begin(), subject.ranks.end(), one.recording.rank);
  });
  return patients;
}

/// Looks at the ranks, first at those that do not wait, since one of them holds up the others. When the time is over,
/// only the states of the processes are read.
void look_at_all(std::vector<doctor::Patient>& patients) {
  std::stable_partition(patients.begin(), patients.end(),
                        [](const doctor::Patient& one) { return one.recording.waiters == 0; });
  const Deadline until = deadline_in(time_for_places);
  for (doctor::Patient& one : patients) {
    std::vector<doctor::Patient> alone;
    alone.push_back(std::move(one));
    doctor::look_at(alone, Clock::now() < until ? doctor::Look::at_places : doctor::Look::at_state);
    one = std::move(alone.front());
  }
}

/// Writes all that is queued. The other end has a poll loop, which reads it soon.
void write_all(Channel& out) {
  for (out.flush(); out.pending(); out.flush()) {
    std::vector<pollfd> entries;
    out.watch(entries);
    poll(entries.data(), entries.size(), 1000);
  }
}

void examine(const Frame& question, const Examination::Subject& subject, Channel& out) {
  std::vector<doctor::Patient> patients = patients_of(subject);
  look_at_all(patients);
  // A rank may have several recordings: that of a process that has ended, and that of the one that came after it.
  std::stable_sort(patients.begin(), patients.end(), [](const doctor::Patient& a, const doctor::Patient& b) {
    return std::pair(a.recording.rank, a.life == doctor::Patient::Life::gone) <
           std::pair(b.recording.rank, b.life == doctor::Patient::Life::gone);
  });
  int last = -1;
  for (const doctor::Patient& one : patients) {
    if (std::exchange(last, one.recording.rank) == one.recording.rank) continue;
    std::string letter = doctor::letter_of(one, static_cast<std::size_t>(std::max(question.subject, 0)));
    if (letter.size() <= doctor::longest_letter)
      out.queue({Say::patient, one.recording.rank, question.number, std::move(letter)});
    write_all(out);
  }
  out.queue({Say::examined, subject.host, question.number, {}});
  write_all(out);
}

[[noreturn]] void examine_and_exit(int out, pid_t parent, const Frame& question, const Examination::Subject& subject) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  std::signal(SIGPIPE, SIG_DFL);
  std::signal(SIGALRM, SIG_DFL);
  reset_signals();
  alarm(longest_examination);
  try {
    int unused[2];
    if (pipe2(unused, O_CLOEXEC) != 0) _exit(1);
    Channel channel{Descriptor(unused[0]), Descriptor(out), ""};
    examine(question, subject, channel);
  } catch (const std::exception&) {  // then the doctor is told that this host does not answer
    _exit(1);
  }
  _exit(0);
}

}  // namespace

void Examination::begin(const Frame& question, const Subject& subject) {
  end();
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return;
  found_ = std::make_unique<Channel>(Descriptor(ends[0]), Descriptor(), "");
  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ == 0) examine_and_exit(ends[1], parent, question, subject);
  close(ends[1]);
  if (pid_ < 0) found_.reset();
}

void Examination::end() {
  if (pid_ > 0) kill(pid_, SIGKILL);  // whoever waits for children waits for it, too
  pid_ = -1;
  found_.reset();
}

void Examination::watch(std::vector<pollfd>& entries) const {
  entries.push_back({found_ ? found_->fd() : -1, POLLIN, 0});
}

void Examination::serve(Channel& above) {
  if (!found_) return;
  const bool more = found_->receive();
  while (const auto frame = found_->next()) above.queue(*frame);
  if (!more) found_.reset();
}

bool Examination::reaped(pid_t pid) {
  if (pid != pid_) return false;
  pid_ = -1;
  return true;
}

}  // namespace tutti::tools
