// Deaths of ranks that share memory are detected and reported with the rank, and leave nothing behind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/syscall.h>

#include <cstdlib>
#include <fstream>
#include <set>

#include "tests/support/processes.hpp"
#include "tests/support/shm_ranks.hpp"

namespace tutti::testing {
namespace {

using ::testing::HasSubstr;

std::set<std::string> names_in_dev_shm() {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm"))
    if (entry.path().filename().string().starts_with("tutti")) names.insert(entry.path().filename());
  return names;
}

bool socket_exists(const std::string& name) {
  std::ifstream file("/proc/net/unix");
  for (std::string line; std::getline(file, line);)
    if (line.ends_with("@" + name)) return true;
  return false;
}

// A survivor's answer after it has detected a death: the number of reports, and the first cause's text.
std::string verdict_of(ShmRank& self) {
  if (!self.watch_for(1)) return "nothing noticed";
  std::vector<int> ready;
  for (int i = 0; i < 20; ++i) {
    self.wire().poll(ready);
    self.wire().watch();
    ::usleep(1000);
  }
  const auto causes = self.listener.causes();
  return std::to_string(causes.size()) + ": " + causes[0].text;
}

void wait_for_key(Store& store, const std::string& key) { store.wait(key, deadline_in(Seconds(30))); }

enum class Child { none, forked, raw };

// Forks a child that outlives its parent and inherits its descriptors; `raw` bypasses the fork handlers.
void leave_a_child(Child how, Store& store) {
  if (how == Child::none) return;
  const pid_t child = how == Child::forked ? ::fork() : static_cast<pid_t>(::syscall(SYS_fork));
  if (child != 0) {
    store.set("child", std::to_string(child));
    return;
  }
  ::pause();
  ::_exit(0);
}

void kill_one_of_four(Child how) {
  const TemporaryFolder folder;
  Fleet fleet(4, [&](int rank) -> std::string {
    const auto store = make_file_store(folder.path());
    ShmRank self(rank, 4, store);
    const std::string problem = self.exchange(10'000, 2);
    if (!problem.empty()) return problem;
    if (rank == 2) leave_a_child(how, *store);
    store->set("ready/" + std::to_string(rank), "1");
    if (rank == 2) ::pause();
    return verdict_of(self);
  });
  const auto store = make_file_store(folder.path());
  for (int rank = 0; rank < 4; ++rank) wait_for_key(*store, "ready/" + std::to_string(rank));
  fleet.kill(2);
  for (const int survivor : {0, 1, 3}) {
    const std::string answer = fleet.answer(survivor);
    EXPECT_THAT(answer, ::testing::StartsWith("1: rank 2 (process " + std::to_string(fleet.pid(2)) + " on host "));
  }
  std::string child;
  if (store->find("child", child)) ::kill(std::atoi(child.c_str()), SIGKILL);
}

TEST(ShmDeath, IsNoticedByAll) { kill_one_of_four(Child::none); }
TEST(ShmDeath, IsNoticedWhileAForkedChildLives) { kill_one_of_four(Child::forked); }

TEST(ShmDeath, IsNoticedWhileAChildHoldsTheSocketsOpen) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer does not survive a fork behind its back";
#endif
  kill_one_of_four(Child::raw);
}

TEST(ShmDeath, TwoDeathsAreBothTold) {
  const TemporaryFolder folder;
  Fleet fleet(4, [&](int rank) -> std::string {
    const auto store = make_file_store(folder.path());
    ShmRank self(rank, 4, store);
    store->set("ready/" + std::to_string(rank), "1");
    if (rank % 2 != 0) ::pause();
    if (!self.watch_for(2)) return "two deaths were not noticed";
    std::set<int> named;
    for (const Cause& why : self.listener.causes()) named.insert(why.culprit);
    return named == std::set<int>{1, 3} ? "" : "others were named";
  });
  const auto store = make_file_store(folder.path());
  for (int rank = 0; rank < 4; ++rank) wait_for_key(*store, "ready/" + std::to_string(rank));
  fleet.kill(1, SIGSTOP);
  fleet.kill(3);
  ::usleep(20'000);
  fleet.kill(1);
  EXPECT_EQ(fleet.answer(0), "");
  EXPECT_EQ(fleet.answer(2), "");
}

TEST(ShmDeath, WhatWasPublishedStaysReadable) {
  const TemporaryFolder folder;
  Fleet fleet(2, [&](int rank) -> std::string {
    const auto store = make_file_store(folder.path());
    ShmRank self(rank, 2, store);
    const auto last_words = pattern(100'000, 9);
    if (rank == 1) {
      const ConstBytes piece(last_words);
      if (self.wire().write(0, {&piece, 1}) != last_words.size()) return "it did not fit";
      ::raise(SIGKILL);
    }
    if (!self.watch_for(1)) return "the death was not noticed";
    std::vector<std::byte> heard(last_words.size());
    if (self.wire().read(1, heard) != heard.size()) return "bytes are missing";
    return heard == last_words ? "" : "bytes are wrong";
  });
  EXPECT_EQ(fleet.answer(0), "");
  EXPECT_EQ(fleet.answer(1), "killed by signal 9");
}

TEST(ShmDeath, OfEveryoneLeavesNothing) {
  const auto before = names_in_dev_shm();
  for (const char* no_memfd : {"", "1"}) {
    const TemporaryFolder folder;
    Fleet fleet(3, [&](int rank) -> std::string {
      if (*no_memfd) ::setenv("TUTTI_TEST_NO_MEMFD", no_memfd, 1);
      const auto store = make_file_store(folder.path());
      ShmRank self(rank, 3, store);
      store->set("ready/" + std::to_string(rank), "1");
      for (std::size_t seed = 0;; ++seed) self.exchange(300'000, seed);
    });
    const auto store = make_file_store(folder.path());
    for (int rank = 0; rank < 3; ++rank) wait_for_key(*store, "ready/" + std::to_string(rank));
    for (int rank = 0; rank < 3; ++rank) fleet.kill(rank);
    for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(fleet.answer(rank), "killed by signal 9");
    EXPECT_FALSE(socket_exists(store->wait("0/at", deadline_in(Seconds(1)))));
  }
  EXPECT_EQ(names_in_dev_shm(), before);
}

// Runs `body` with a new tmpfs in a new mount namespace, so that it cannot stay mounted.
std::string on_a_small_tmpfs(const std::string& place, const std::string& size, int rank,
                             const std::function<std::string(const Settings&)>& body) {
  if (::unshare(CLONE_NEWNS) != 0 || ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)
    return "no mount namespace for rank " + std::to_string(rank);
  if (::mount("tmpfs", place.c_str(), "tmpfs", 0, ("size=" + size).c_str()) != 0) return "no tmpfs";
  ::setenv("TUTTI_TEST_NO_MEMFD", "1", 1);
  Settings settings;
  settings.set("shm_dir", place, "test");
  return body(settings);
}

TEST(ShmSpace, SixtyFourMegabytesAreEnough) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to mount a tmpfs";
  const TemporaryFolder folder, place;
  Fleet fleet(4, [&](int rank) {
    return on_a_small_tmpfs(place.path(), "64m", rank, [&](const Settings& settings) {
      ShmRank self(rank, 4, make_file_store(folder.path()), settings);
      return self.exchange(3'000'000, 4);
    });
  });
  fleet.expect_success();
}

TEST(ShmSpace, OneMegabyteIsASentence) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to mount a tmpfs";
  const TemporaryFolder folder, place;
  Fleet fleet(3, [&](int rank) {
    return on_a_small_tmpfs(place.path(), "1m", rank, [&](const Settings& settings) -> std::string {
      const auto store = make_file_store(folder.path());
      ShmRank self(rank, 3, store, settings);
      const std::string problem = self.exchange(1'000, 4);
      store->set("done/" + std::to_string(rank), "1");
      for (int other = 0; other < 3; ++other) wait_for_key(*store, "done/" + std::to_string(other));  // all must stay
      return problem;
    });
  });
  for (int rank = 0; rank < 3; ++rank)
    EXPECT_THAT(fleet.answer(rank),
                ::testing::MatchesRegex("rank [0-2]: the ring of 1 MiB to another rank of this host has no memory "
                                        "\\(No space left on device; .* available\\): free memory, or room in "
                                        "TUTTI_SHM_DIR, or set TUTTI_SHM_BYTES lower"));
}

TEST(ShmSpace, OneMegabyteDoesWithSmallerRings) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to mount a tmpfs";
  const TemporaryFolder folder, place;
  Fleet fleet(3, [&](int rank) {
    return on_a_small_tmpfs(place.path(), "1m", rank, [&](Settings settings) {
      settings.set("shm_bytes", "128K", "test");
      ShmRank self(rank, 3, make_file_store(folder.path()), settings);
      return self.exchange(1'000'000, 4);
    });
  });
  fleet.expect_success();
}

TEST(ShmSpace, AFolderThatCannotBeWrittenIsASentence) {
  const TemporaryFolder folder;
  Fleet fleet(2, [&](int rank) -> std::string {
    ::setenv("TUTTI_TEST_NO_MEMFD", "1", 1);
    Settings settings;
    settings.set("shm_dir", "/proc/nowhere", "test");
    ShmRank self(rank, 2, make_file_store(folder.path()), settings);
    return "connected";
  });
  for (int rank = 0; rank < 2; ++rank) EXPECT_THAT(fleet.answer(rank), HasSubstr("TUTTI_SHM_DIR"));
}

}  // namespace
}  // namespace tutti::testing
