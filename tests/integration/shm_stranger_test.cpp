// Strangers at the socket where the ranks of a host meet, and a leader that does not read a caller's message at first.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <deque>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/caught.hpp"
#include "tests/support/shm_ranks.hpp"
#include "transports/shm/messages.hpp"
#include "tutti/log.hpp"
#include "tutti/store.hpp"

namespace tutti::testing {
namespace {

using namespace tutti::shm;
using ::testing::HasSubstr;

Descriptor seqpacket(int flags = 0) { return Descriptor(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | flags, 0)); }

TEST(ShmStranger, WhoeverIsNotHeardCallsAgain) {
  const std::string name = "tutti-test-" + std::to_string(::getpid());
  const UnixAddress here(name);
  const Descriptor listener = seqpacket();
  ASSERT_EQ(::bind(listener.fd(), here.get(), here.length), 0);
  ASSERT_EQ(::listen(listener.fd(), 10), 0);
  constexpr int unheard = 4;
  std::thread leader([&] {
    for (int call = 0; call <= unheard; ++call) {
      const Descriptor caller(::accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC));
      pollfd hello = {caller.fd(), POLLIN, 0};
      if (call % 2 == 0) ::poll(&hello, 1, 20'000);       // the hello has arrived, and is not read
      if (call == unheard) receive_message(caller.fd());  // this hello is read, and the caller is refused
    }
  });
  Identity self;
  self.card.rank = 1;
  const Error error = caught([&] { call(self, 0, name, deadline_in(Seconds(20))); });
  leader.join();
  EXPECT_EQ(error.code(), Code::peer_lost);
  EXPECT_THAT(error.what(), HasSubstr("it ended or refused us"));
}

TEST(ShmStranger, RanksMeetInAFlood) {
  set_log_level(LogLevel::off);
  constexpr int size = 4;
  for (int meeting = 0; meeting < 10; ++meeting) {
    const std::shared_ptr<Store> store = make_local_store();
    std::atomic<bool> over = false;
    std::atomic<int> calls = 0;
    std::thread strangers([&] {
      const std::string name = store->wait("0/at", never);
      const UnixAddress there(name);
      std::deque<Descriptor> open;
      for (; !over; open.size() > 200 ? open.pop_front() : void()) {
        Descriptor one = seqpacket(SOCK_NONBLOCK);
        if (::connect(one.fd(), there.get(), there.length) != 0) continue;
        open.push_back(std::move(one));
        ++calls;
      }
    });
    std::vector<std::string> unreached(size);
    std::vector<std::thread> ranks;
    for (int rank = 0; rank < size; ++rank)
      ranks.emplace_back([&, rank] {
        while (rank > 0 && calls < 300) std::this_thread::yield();
        try {
          unreached[static_cast<std::size_t>(rank)] = ShmRank(rank, size, store).met.reason;
        } catch (const Error& error) {
          unreached[static_cast<std::size_t>(rank)] = error.what();
        }
      });
    for (std::thread& rank : ranks) rank.join();
    over = true;
    strangers.join();
    EXPECT_THAT(unreached, ::testing::Each("")) << "meeting " << meeting << ", " << calls << " strangers";
  }
  set_log_level(LogLevel::warn);
}

}  // namespace
}  // namespace tutti::testing
