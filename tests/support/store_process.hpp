// StoreProcess: a store in a process of its own, for tests that fork ranks: a process with a second thread must not
// fork.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "tutti/store.hpp"

namespace tutti::testing {

class StoreProcess {
 public:
  explicit StoreProcess(const std::string& secret) {
    int ends[2];
    if (::pipe(ends) != 0) return;
    pid_ = ::fork();
    if (pid_ == 0) {
      ::close(ends[0]);
      const TcpStoreServer server("127.0.0.1", 0, secret, 64);
      const int port = server.port();
      if (::write(ends[1], &port, sizeof port) == sizeof port)
        for (;;) ::pause();
      ::_exit(1);
    }
    ::close(ends[1]);
    EXPECT_EQ(::read(ends[0], &port_, sizeof port_), static_cast<ssize_t>(sizeof port_));
    ::close(ends[0]);
  }
  StoreProcess(const StoreProcess&) = delete;
  StoreProcess& operator=(const StoreProcess&) = delete;
  ~StoreProcess() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

  std::string url() const { return "tcp://127.0.0.1:" + std::to_string(port_); }

 private:
  pid_t pid_ = -1;
  int port_ = 0;
};

}  // namespace tutti::testing
