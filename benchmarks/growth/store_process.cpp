#include "benchmarks/growth/store_process.hpp"

#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <stdexcept>
#include <system_error>

#include "transports/core/open_files.hpp"
#include "tutti/clock.hpp"

namespace tutti::growth {
namespace {

[[noreturn]] void cannot(const char* what) { throw std::system_error(errno, std::generic_category(), what); }

void serve(int clients, int port, int stop) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  raise_limit_of_open_files();
  const TcpStoreServer server("127.0.0.1", 0, "secret", static_cast<std::size_t>(clients));
  const int number = server.port();
  char byte = 0;
  const bool told = write(port, &number, sizeof number) == sizeof number;
  while (told && read(stop, &byte, 1) > 0) continue;
}

[[noreturn]] void serve_as_process(int clients, int port, int stop) {
  try {
    serve(clients, port, stop);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "growth_laws: no store: %s\n", error.what());
    _exit(1);
  }
  _exit(0);
}

double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

}  // namespace

StoreProcess::StoreProcess(int clients) {
  int port[2], stop[2];
  if (pipe(port) != 0 || pipe(stop) != 0) cannot("pipe");
  process_ = fork();
  if (process_ < 0) cannot("fork");
  if (process_ == 0) {
    close(stop[1]);
    serve_as_process(clients, port[1], stop[0]);
  }
  close(port[1]);
  close(stop[0]);
  stop_ = stop[1];
  const bool told = read(port[0], &port_, sizeof port_) == sizeof port_;
  close(port[0]);
  if (!told) {
    end();
    throw std::runtime_error("the process of the store has ended");
  }
}

std::shared_ptr<Store> StoreProcess::connect() const {
  return connect_tcp_store("127.0.0.1", port_, "secret", deadline_in(Seconds(60)));
}

double StoreProcess::end() {
  if (stop_ < 0) return seconds_;
  close(stop_);
  stop_ = -1;
  rusage used = {};
  int status = 0;
  wait4(process_, &status, 0, &used);
  return seconds_ = seconds_of(used.ru_utime) + seconds_of(used.ru_stime);
}

}  // namespace tutti::growth
