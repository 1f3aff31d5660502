// Ranks as processes of a test: forked by the test, joined by a file store, watched by the parent.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "tests/support/temporary_folder.hpp"
#include "tutti/store.hpp"

namespace tutti::testing {

/// Processes 0..n-1, each of which runs `body(rank)`. Its result is the process's answer: "" is success, any other text
/// says what is wrong. An exception is an answer, too. The destructor kills and reaps the remaining processes.
class Fleet {
 public:
  using Body = std::function<std::string(int)>;

  Fleet(int size, const Body& body) {
    for (int rank = 0; rank < size; ++rank) launch(rank, body);
  }
  Fleet(const Fleet&) = delete;
  Fleet& operator=(const Fleet&) = delete;
  ~Fleet() {
    for (Member& member : members_) {
      if (!member.reaped) {
        ::kill(member.pid, SIGKILL);
        ::waitpid(member.pid, nullptr, 0);
      }
      ::close(member.output);
    }
  }

  void kill(int rank, int signal = SIGKILL) const { ::kill(at(rank).pid, signal); }
  pid_t pid(int rank) const { return at(rank).pid; }

  /// Waits for the process and returns its answer, or "killed by signal 9" if a signal ended it.
  std::string answer(int rank) {
    Member& member = members_[static_cast<std::size_t>(rank)];
    std::string said;
    char piece[4096];
    pollfd ready = {member.output, POLLIN, 0};
    while (::poll(&ready, 1, 60'000) == 1) {
      const ssize_t n = ::read(member.output, piece, sizeof piece);
      if (n <= 0) break;
      said.append(piece, static_cast<std::size_t>(n));
    }
    if (ready.revents == 0) return "no answer after 60 s";
    int status = 0;
    ::waitpid(member.pid, &status, 0);
    member.reaped = true;
    if (WIFSIGNALED(status)) return "killed by signal " + std::to_string(WTERMSIG(status));
    if (WEXITSTATUS(status) != 0 && said.empty()) return "exit code " + std::to_string(WEXITSTATUS(status));
    return said;
  }

  /// Kills `victim`, and expects that all other processes succeed.
  void expect_success_without(int victim) {
    kill(victim);
    for (int rank = 0; rank < static_cast<int>(members_.size()); ++rank)
      EXPECT_EQ(answer(rank), rank == victim ? "killed by signal 9" : "") << "rank " << rank;
  }
  void expect_success() {
    for (int rank = 0; rank < static_cast<int>(members_.size()); ++rank) EXPECT_EQ(answer(rank), "") << "rank " << rank;
  }

 private:
  struct Member {
    pid_t pid = -1;
    int output = -1;
    bool reaped = false;
  };
  const Member& at(int rank) const { return members_[static_cast<std::size_t>(rank)]; }

  void launch(int rank, const Body& body) {
    int ends[2];
    ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    std::fflush(nullptr);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      for (const Member& other : members_) ::close(other.output);
      ::close(ends[0]);
      ::_exit(speak(ends[1], rank, body));
    }
    ::close(ends[1]);
    members_.push_back({child, ends[0], false});
  }

  static int speak(int output, int rank, const Body& body) {
    std::string said;
    try {
      said = body(rank);
    } catch (const std::exception& problem) {
      said = std::string("exception: ") + problem.what();
    }
    for (std::size_t at = 0; at < said.size();) {
      const ssize_t n = ::write(output, said.data() + at, said.size() - at);
      if (n <= 0) return 3;
      at += static_cast<std::size_t>(n);
    }
    return said.empty() ? 0 : 1;
  }

  std::vector<Member> members_;
};

}  // namespace tutti::testing
