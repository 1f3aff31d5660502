// Strangers that connect to the tcp transport: garbage, silence, other jobs, wrong secrets and versions,
// all while ranks exchange data.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <deque>

#include "tests/support/tcp_mesh.hpp"
#include "transports/tcp/sockets.hpp"
#include "tutti/log.hpp"

namespace tutti {
namespace {

using namespace tutti::testing;
using ::testing::HasSubstr;
using ::testing::Not;

/// A blocking connection to a rank's listener on 127.0.0.1.
class Stranger {
 public:
  explicit Stranger(const tcp::Endpoint& endpoint) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    for (const tcp::Candidate& candidate : endpoint.candidates) {
      if (candidate.address.text() != "127.0.0.1") continue;
      sockaddr_storage where;
      const socklen_t length = candidate.address.socket_address(candidate.port, where);
      EXPECT_EQ(::connect(socket_.fd(), reinterpret_cast<sockaddr*>(&where), length), 0);
    }
  }

  void say(ConstBytes bytes) { ::send(socket_.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL); }
  void say(std::string_view text) { say(std::as_bytes(std::span(text))); }

  /// Reads up to the end of the stream.
  std::vector<std::byte> hear_out() {
    std::vector<std::byte> heard;
    std::array<std::byte, 4096> buffer;
    for (ssize_t got = 0; (got = ::recv(socket_.fd(), buffer.data(), buffer.size(), 0)) > 0;) {
      heard.insert(heard.end(), buffer.begin(), buffer.begin() + got);
    }
    return heard;
  }

  /// Reads exactly `bytes` bytes, or fewer at the end of the stream.
  std::vector<std::byte> hear(std::size_t bytes) {
    std::vector<std::byte> heard(bytes);
    const ssize_t got = ::recv(socket_.fd(), heard.data(), bytes, MSG_WAITALL);
    heard.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    return heard;
  }

 private:
  Descriptor socket_;
};

tcp::Verdict verdict_of(const std::vector<std::byte>& heard) {
  tcp::HelloBytes bytes{};
  if (heard.size() < bytes.size()) return tcp::Verdict::welcome;
  std::copy_n(heard.begin(), bytes.size(), bytes.begin());
  return tcp::decode(bytes).value().verdict;
}

/// A mesh whose ranks exchange data, on a thread, until the test ends.
class TcpStranger : public ::testing::Test {
 protected:
  TcpStranger() : mesh_(3) {
    set_log_level(LogLevel::warn);
    ::testing::internal::CaptureStderr();
    talking_ = std::thread([this] {
      std::vector<Talker> talkers;
      for (int rank = 0; rank < 3; ++rank) {
        talkers.emplace_back(*mesh_.wires[static_cast<std::size_t>(rank)], rank, 3, std::size_t{1} << 40, 5u);
      }
      while (!stop_) {
        for (Talker& talker : talkers) {
          talker.step();
          if (talker.wrong()) wrong_ = true;
        }
        ++rounds_;
      }
    });
  }

  ~TcpStranger() override { finish(); }

  /// Ends the exchange, checks that it was not disturbed, and returns the log.
  std::string finish() {
    if (!talking_.joinable()) return {};
    for (const std::uint64_t now = rounds_; rounds_ < now + 10;) wait_readable(-1, 1);
    stop_ = true;
    talking_.join();
    EXPECT_FALSE(wrong_);
    for (const Notes& notes : mesh_.notes) EXPECT_TRUE(notes.causes().empty());
    return ::testing::internal::GetCapturedStderr();
  }

  tcp::Hello hello() const {
    tcp::Hello made = member(2, 3).hello(1, mesh_.endpoints[1].instance);
    return made;
  }

  Mesh mesh_;
  std::thread talking_;
  std::atomic<bool> stop_{false}, wrong_{false};
  std::atomic<std::uint64_t> rounds_{0};
};

TEST_F(TcpStranger, GarbageIsClosedAtOnceAndLogged) {
  for (int i = 0; i < 200; ++i) {
    Stranger stranger(mesh_.endpoints[1]);
    stranger.say(i % 2 ? "GET / HTTP/1.1\r\nHost: here\r\n\r\n" : std::string(100'000, static_cast<char>(i)));
    EXPECT_TRUE(stranger.hear_out().empty());
  }
  const std::string logged = finish();
  EXPECT_THAT(logged, HasSubstr("does not speak tutti's protocol"));
  EXPECT_LE(std::ranges::count(logged, '\n'), 20) << logged;
}

TEST_F(TcpStranger, TheSilentAreClosedAndKeepNobodyOut) {
  std::vector<std::unique_ptr<Stranger>> strangers;
  for (int i = 0; i < 200; ++i) {
    strangers.push_back(std::make_unique<Stranger>(mesh_.endpoints[1]));
    strangers.back()->say(std::string_view("tutti-tc").substr(0, static_cast<std::size_t>(i % 9)));
  }
  for (auto& stranger : strangers) EXPECT_TRUE(stranger->hear_out().empty());
  EXPECT_THAT(finish(), HasSubstr("too many connections at once"));
}

TEST_F(TcpStranger, OtherVersionsAndJobsAreToldApart) {
  const auto answer = [this](const tcp::Hello& hello) {
    Stranger stranger(mesh_.endpoints[1]);
    stranger.say(tcp::encode(hello));
    return verdict_of(stranger.hear_out());
  };
  tcp::Hello other = hello();
  other.version = 9;
  EXPECT_EQ(answer(other), tcp::Verdict::wrong_version);
  other = hello();
  other.job = tcp::job_hash("another");
  EXPECT_EQ(answer(other), tcp::Verdict::wrong_job);
  other = hello();
  other.size = 4;
  EXPECT_EQ(answer(other), tcp::Verdict::wrong_size);
  other = hello();
  other.instance = 1;
  EXPECT_EQ(answer(other), tcp::Verdict::wrong_target);
  const std::string logged = finish();
  EXPECT_THAT(logged, HasSubstr("speaks wire protocol 9, this rank 2"));
  EXPECT_THAT(logged, HasSubstr("belongs to another job"));
  EXPECT_THAT(logged, HasSubstr("believes the job has 4 ranks"));
}

/// Connects to a rank as fast as possible, without sending, until `over`; keeps the last 200 connections open.
void flood(const tcp::Endpoint& endpoint, const std::atomic<bool>& over, std::atomic<int>& calls) {
  std::deque<std::unique_ptr<Stranger>> open;
  for (; !over; ++calls) {
    open.push_back(std::make_unique<Stranger>(endpoint));
    if (open.size() > 200) open.pop_front();
  }
}

TEST(TcpFlood, RanksConnectInIt) {
  set_log_level(LogLevel::off);
  for (int round = 0; round < 5; ++round) {
    std::atomic<bool> over{false};
    std::atomic<int> calls{0};
    std::vector<std::thread> strangers;
    {
      Mesh mesh(3);
      for (const tcp::Endpoint& endpoint : mesh.endpoints)
        strangers.emplace_back([&] { flood(endpoint, over, calls); });
      while (calls < 300) wait_readable(-1, 1);
      std::vector<std::thread> ranks;
      for (int rank = 0; rank < 3; ++rank)
        ranks.emplace_back([&, rank] {
          Talker talker(*mesh.wires[static_cast<std::size_t>(rank)], rank, 3, 100'000, 5u);
          talker.run([](int fd) { wait_readable(fd, 1000); });
          EXPECT_FALSE(talker.wrong());
        });
      for (std::thread& rank : ranks) rank.join();
      over = true;
      for (std::thread& one : strangers) one.join();
      for (const Notes& notes : mesh.notes) EXPECT_TRUE(notes.causes().empty());
    }
  }
  set_log_level(LogLevel::warn);
}

TEST(TcpFlood, APeerThatTakesCallsAndClosesThemIsCalledAgain) {
  set_log_level(LogLevel::off);
  Notes notes;
  auto acceptor = std::make_unique<tcp::Acceptor>(member(0, 2), tcp::AcceptorSettings{}, notes);
  int port = 0;
  tcp::Endpoint crowded = acceptor->endpoint();  // stands for a rank 1 that closes all connections
  const auto loopback =
      std::ranges::find(crowded.candidates, "127.0.0.1", [](const auto& c) { return c.address.text(); });
  ASSERT_NE(loopback, crowded.candidates.end());
  const Descriptor listener = tcp::listen_at(loopback->address, "", port);
  crowded.rank = 1;
  crowded.candidates = {*loopback};
  crowded.candidates[0].port = port;
  const auto wire = meet(std::move(acceptor), 2, {crowded}, notes);
  const std::array<std::byte, 1> byte{};
  const std::array<ConstBytes, 1> pieces = {ConstBytes(byte)};
  std::vector<int> ranks;
  int calls = 0;
  for (const Deadline end = deadline_in(Seconds(1)); Clock::now() < end; wait_readable(wire->fds().sleep, 5)) {
    EXPECT_EQ(wire->write(1, pieces), 0u);
    wire->poll(ranks);
    while (tcp::accept_from(listener.fd())) ++calls;
  }
  EXPECT_TRUE(notes.causes().empty());  // although the usual limit of 0.3 s has passed
  EXPECT_GT(calls, 5);
  set_log_level(LogLevel::warn);
}

TEST(TcpSecret, WithoutTheSecretNobodyGetsIn) {
  set_log_level(LogLevel::warn);
  ::testing::internal::CaptureStderr();
  Notes notes;
  auto acceptor = std::make_unique<tcp::Acceptor>(member(0, 2), tcp::AcceptorSettings{}, notes);
  const tcp::Endpoint endpoint = acceptor->endpoint();
  tcp::Endpoint absent = endpoint;  // the endpoint of a rank 1 that does not exist
  absent.rank = 1;
  const auto wire = meet(std::move(acceptor), 2, {absent}, notes);

  Stranger stranger(endpoint);
  std::atomic<bool> stop{false};
  std::thread watcher([&] {
    while (!stop) {
      wait_readable(wire->fds().watch, 20);
      wire->watch();
    }
  });
  const tcp::HelloBytes hello = tcp::encode(member(1, 2).hello(0, endpoint.instance));
  stranger.say(hello);
  const auto heard = stranger.hear(tcp::hello_bytes + sizeof(Digest));
  EXPECT_EQ(verdict_of(heard), tcp::Verdict::welcome);
  ASSERT_EQ(heard.size(), tcp::hello_bytes + sizeof(Digest));
  tcp::HelloBytes theirs;
  std::copy_n(heard.begin(), theirs.size(), theirs.begin());
  tcp::Membership guess = member(1, 2, "guess");
  stranger.say(guess.proof(tcp::Membership::Side::connector, hello, theirs));
  const std::array decision = {tcp::chosen};
  stranger.say(decision);
  EXPECT_TRUE(stranger.hear_out().empty());
  stop = true;
  watcher.join();
  std::vector<int> ranks;
  wire->poll(ranks);
  EXPECT_FALSE(wire->open(1));
  EXPECT_TRUE(notes.causes().empty());
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("does not know the job's secret"));
}

TEST(TcpSecret, RanksWithDifferentSecretsSaySo) {
  set_log_level(LogLevel::error);
  std::vector<Notes> notes(2);
  auto one = std::make_unique<tcp::Acceptor>(member(0, 2, "this"), tcp::AcceptorSettings{}, notes[0]);
  auto two = std::make_unique<tcp::Acceptor>(member(1, 2, "that"), tcp::AcceptorSettings{}, notes[1]);
  const std::vector<tcp::Endpoint> endpoints = {one->endpoint(), two->endpoint()};
  const auto first = meet(std::move(one), 2, endpoints, notes[0]),
             second = meet(std::move(two), 2, endpoints, notes[1]);
  const std::array<std::byte, 1> byte{};
  const std::array<ConstBytes, 1> pieces = {ConstBytes(byte)};
  std::vector<int> ranks;
  while (notes[0].causes().empty()) {
    EXPECT_EQ(first->write(1, pieces), 0u);
    first->poll(ranks);
    second->poll(ranks);
    wait_readable(first->fds().sleep, 5);
  }
  EXPECT_THAT(notes[0].causes()[0].text, HasSubstr("does not know the job's secret"));
  EXPECT_TRUE(notes[1].causes().empty());
}

}  // namespace
}  // namespace tutti
