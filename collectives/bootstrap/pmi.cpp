// PMI-1: each request and each answer is one line "cmd=...".
#include "collectives/bootstrap/pmi.hpp"

#include <dlfcn.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "collectives/bootstrap/socket.hpp"
#include "tutti/fork.hpp"
#include "tutti/log.hpp"
#include "tutti/status.hpp"

namespace tutti::launchers {
namespace {

[[noreturn]] void fail(Code code, const std::string& what) {
  throw Error(code, "speaking PMI with hydra: " + what + ". Set TUTTI_STORE=tcp://HOST:PORT to do without");
}

/// True if MPI has been initialised in this process. The function is looked up by name, as the library does not link
/// MPI.
bool mpi_has_begun() {
  const auto initialized = reinterpret_cast<int (*)(int*)>(dlsym(RTLD_DEFAULT, "MPI_Initialized"));
  int flag = 0;
  return initialized != nullptr && initialized(&flag) == 0 && flag != 0;
}

}  // namespace

Pmi::Pmi(int fd, double patience) : fd_(fd), patience_(patience), generation_(fork_generation()) {
  static std::atomic<bool> spoken = false;  // the protocol allows one init per process
  if (spoken.exchange(true))
    throw Error(
        Code::invalid,
        "this process has met the others through hydra's PMI before, which works once: keep that communicator and "
        "split() it");
  if (!mpi_has_begun()) ask("cmd=init pmi_version=1 pmi_subversion=1", "response_to_init", "rc");
  ask("cmd=get_maxes", "maxes", "kvsname_max");
  job_ = ask("cmd=get_my_kvsname", "my_kvsname", "kvsname");
}

void Pmi::put(const std::string& key, const std::string& value) {
  ask("cmd=put kvsname=" + job_ + " key=" + key + " value=" + value, "put_result", "rc");
}

std::string Pmi::read(const std::string& key) {
  return ask("cmd=get kvsname=" + job_ + " key=" + key, "get_result", "value");
}

void Pmi::barrier() { ask("cmd=barrier_in", "barrier_out", ""); }

Pmi::~Pmi() {
  if (mpi_has_begun() || fork_generation() != generation_) return;
  try {
    ask("cmd=finalize", "finalize_ack", "");
  } catch (const std::exception& error) {  // the launcher notices how this process ends
    log(LogLevel::debug, error.what());
  }
}

std::string Pmi::ask(const std::string& line, const std::string& expected, const std::string& field) {
  const std::string text = line + "\n";
  for (std::size_t sent = 0; sent < text.size();) {
    ssize_t n = send(fd_, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (n < 0 && errno == ENOTSOCK) n = write(fd_, text.data() + sent, text.size() - sent);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(Code::peer_lost, "PMI_FD=" + std::to_string(fd_) + " cannot be written: " + std::strerror(errno));
    sent += static_cast<std::size_t>(n);
  }
  return field_of(receive(line), line, expected, field);
}

std::string Pmi::field_of(const std::string& answer, const std::string& question, const std::string& expected,
                          const std::string& field) {
  if (!answer.starts_with("cmd=" + expected))
    fail(Code::protocol, "'" + question + "' was answered by '" + answer + "'");
  if (const std::size_t rc = answer.find(" rc="); rc != std::string::npos && !answer.substr(rc).starts_with(" rc=0"))
    fail(Code::protocol, "'" + question + "' failed: '" + answer + "'");
  if (field.empty()) return {};
  const std::size_t at = answer.find(" " + field + "=");
  if (at == std::string::npos)
    fail(Code::protocol, "'" + question + "' was answered without " + field + ": '" + answer + "'");
  return answer.substr(at + field.size() + 2);
}

std::string Pmi::receive(const std::string& question) {
  constexpr std::size_t longest = 4096;
  const Deadline until = deadline_in(Seconds(patience_));
  std::string line;
  for (;;) {
    if (!sockets::poll_until(fd_, POLLIN, until))
      throw Error(Code::timeout, "hydra has not answered '" + question + "' in time: has every rank started?");
    char c = 0;
    const ssize_t n = ::read(fd_, &c, 1);  // byte by byte: the following bytes may be for another reader
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) fail(Code::peer_lost, "the connection has ended");
    if (c == '\n') return line;
    if (line.size() == longest) fail(Code::protocol, "an endless line");
    line += c;
  }
}

}  // namespace tutti::launchers
