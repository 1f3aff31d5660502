// The TCP store: the contract of stores, strangers, garbage, forks, and servers that end.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <random>

#include "tests/support/store_contract.hpp"
#include "transports/core/descriptor.hpp"
#include "tutti/store.hpp"

namespace tutti::testing {
namespace {

Deadline soon() { return deadline_in(Seconds(30)); }

StoreUnderTest over(const std::string& listen, const std::string& host) {
  auto server = std::make_shared<TcpStoreServer>(listen, 0, "hush");
  return {[server, host] { return connect_tcp_store(host, server->port(), "hush", soon()); }};
}

StoreUnderTest v4() { return over("127.0.0.1", "127.0.0.1"); }
StoreUnderTest v6() { return over("::1", "::1"); }
StoreUnderTest all_by_name() { return over("", "localhost"); }
StoreUnderTest one_client() {
  auto server = std::make_shared<TcpStoreServer>("127.0.0.1", 0, "");
  auto store = connect_tcp_store("127.0.0.1", server->port(), "", soon());
  return {[server, store] { return store; }};
}

INSTANTIATE_TEST_SUITE_P(V4, StoreContract, ::testing::Values(v4));
INSTANTIATE_TEST_SUITE_P(V6, StoreContract, ::testing::Values(v6));
INSTANTIATE_TEST_SUITE_P(AllInterfaces, StoreContract, ::testing::Values(all_by_name));
INSTANTIATE_TEST_SUITE_P(OneClient, StoreContract, ::testing::Values(one_client));

Descriptor plain_connection(int port) {
  Descriptor fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(fd.fd(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  return fd;
}

/// Reads until the other side closes or resets the connection.
std::string until_closed(int fd) {
  std::string bytes;
  char block[4096];
  for (ssize_t n; (n = recv(fd, block, sizeof block, 0)) > 0;) bytes.append(block, static_cast<std::size_t>(n));
  return bytes;
}

TEST(TcpStore, AnotherSecretIsRefused) {
  const TcpStoreServer server("127.0.0.1", 0, "ours");
  for (const char* secret : {"theirs", "", "ours "}) {
    ::testing::internal::CaptureStderr();
    const Error error = caught([&] { connect_tcp_store("127.0.0.1", server.port(), secret, soon()); });
    EXPECT_EQ(error.code(), Code::invalid);
    EXPECT_NE(std::string(error.what()).find("TUTTI_SECRET"), std::string::npos) << error.what();
    // The server still works, and has written its log line by the time it answers.
    connect_tcp_store("127.0.0.1", server.port(), "ours", soon())->set("still", "here");
    const std::string logged = ::testing::internal::GetCapturedStderr();
    EXPECT_NE(logged.find("secret is wrong"), std::string::npos) << logged;
    EXPECT_EQ(logged.find("theirs"), std::string::npos) << logged;
  }
}

TEST(TcpStore, GarbageClosesThatConnectionOnly) {
  const TcpStoreServer server("127.0.0.1", 0, "ours");
  auto store = connect_tcp_store("127.0.0.1", server.port(), "ours", soon());
  std::mt19937 random(7);
  for (int round = 0; round < 50; ++round) {
    const Descriptor fd = plain_connection(server.port());
    std::string garbage = round == 0 ? "GET / HTTP/1.0\r\n\r\n" : std::string(random() % 3000 + 1, '\0');
    if (round > 0)
      for (char& c : garbage) c = static_cast<char>(random());
    send(fd.fd(), garbage.data(), garbage.size(), MSG_NOSIGNAL);
    const std::string heard = until_closed(fd.fd());
    EXPECT_LE(heard.size(), 100U);  // at most the greeting
    EXPECT_EQ(store->add("rounds", 1), round + 1);
  }
}

TEST(TcpStore, RepeatedProofIsRefused) {
  // A proof cannot be replayed by another client, because the nonces differ.
  const TcpStoreServer server("127.0.0.1", 0, "ours");
  const Descriptor a = plain_connection(server.port()), b = plain_connection(server.port());
  char first[64] = {}, second[64] = {};
  ASSERT_GT(recv(a.fd(), first, sizeof first, 0), 40);
  ASSERT_GT(recv(b.fd(), second, sizeof second, 0), 40);
  EXPECT_NE(std::string(first, 40), std::string(second, 40));
}

TEST(TcpStore, AnotherServiceIsNamed) {
  Descriptor listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ASSERT_EQ(bind(listener.fd(), reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(listener.fd(), 4), 0);
  ASSERT_EQ(getsockname(listener.fd(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  std::thread service([&] {
    const Descriptor fd(accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC));
    const std::string hello = "SSH-2.0-something that is longer than a greeting of ours would ever be, surely\r\n";
    send(fd.fd(), hello.data(), hello.size(), MSG_NOSIGNAL);
    until_closed(fd.fd());
  });
  const Error error = caught([&] { connect_tcp_store("127.0.0.1", ntohs(address.sin_port), "", soon()); });
  service.join();
  EXPECT_EQ(error.code(), Code::protocol);
  EXPECT_NE(std::string(error.what()).find("something other"), std::string::npos) << error.what();
}

TEST(TcpStore, NobodyThereIsATimeoutThatNamesThePlace) {
  int port = 0;
  { port = TcpStoreServer("127.0.0.1", 0, "").port(); }
  const Error error = caught([&] { connect_tcp_store("127.0.0.1", port, "", deadline_in(Seconds(0.05))); });
  EXPECT_EQ(error.code(), Code::timeout);
  const std::string place = "tcp://127.0.0.1:" + std::to_string(port);
  EXPECT_NE(std::string(error.what()).find(place), std::string::npos) << error.what();
}

TEST(TcpStore, ClientsMayComeBeforeTheServer) {
  int port = 0;
  { port = TcpStoreServer("127.0.0.1", 0, "").port(); }
  std::atomic<bool> trying = false;
  std::thread early([&] {
    trying = true;
    connect_tcp_store("127.0.0.1", port, "", soon())->set("early", "bird");
  });
  while (!trying) std::this_thread::yield();
  const TcpStoreServer server("127.0.0.1", port, "");
  EXPECT_EQ(connect_tcp_store("127.0.0.1", port, "", soon())->wait("early", soon()), "bird");
  early.join();
}

TEST(TcpStore, TakenPortIsAnError) {
  const TcpStoreServer server("127.0.0.1", 0, "");
  const Error error = caught([&] { TcpStoreServer again("127.0.0.1", server.port(), ""); });
  EXPECT_EQ(error.code(), Code::resource);
  EXPECT_NE(std::string(error.what()).find(std::to_string(server.port())), std::string::npos) << error.what();
}

TEST(TcpStore, EndOfTheServerEndsEveryWait) {
  auto server = std::make_unique<TcpStoreServer>("127.0.0.1", 0, "");
  auto store = connect_tcp_store("127.0.0.1", server->port(), "", soon());
  std::thread waiting([&] {
    const Error error = caught([&] {
      store->add("waiting", 1);
      store->wait("never set", never);
    });
    EXPECT_EQ(error.code(), Code::peer_lost);
    EXPECT_NE(std::string(error.what()).find("'never set'"), std::string::npos) << error.what();
  });
  store->wait("waiting", soon());
  server.reset();
  waiting.join();
}

TEST(TcpStore, ALongWaitHoldsNobodyUp) {
  const TcpStoreServer server("127.0.0.1", 0, "");
  auto store = connect_tcp_store("127.0.0.1", server.port(), "", soon());
  std::vector<std::thread> waiting;
  for (int i = 0; i < 8; ++i) waiting.emplace_back([&] { EXPECT_EQ(store->wait("go", soon()), "now"); });
  EXPECT_EQ(store->add("other", 1), 1);
  store->set("go", "now");
  for (auto& thread : waiting) thread.join();
}

TEST(TcpStore, AChildHoldsNothingOpen) {
  auto server = std::make_unique<TcpStoreServer>("127.0.0.1", 0, "");
  auto store = connect_tcp_store("127.0.0.1", server->port(), "", soon());
  int hold[2];
  ASSERT_EQ(pipe2(hold, O_CLOEXEC), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::close(hold[1]);
    int code = 1;
    try {
      store->set("key", "from the child");
    } catch (const Error& error) {
      code = error.code() == Code::invalid ? 0 : 2;
    }
    server.reset();  // must neither join a thread that is not there nor touch the parent's server
    char byte;
    while (read(hold[0], &byte, 1) < 0) {
    }
    _exit(code);
  }
  ::close(hold[0]);
  store->set("key", "from the parent");
  EXPECT_EQ(store->wait("key", soon()), "from the parent");
  const int port = server->port();
  server.reset();
  // The port is free and the connection closed, although the child is still alive.
  EXPECT_EQ(caught([&] { store->set("key", "too late"); }).code(), Code::peer_lost);
  EXPECT_NO_THROW(TcpStoreServer("127.0.0.1", port, ""));
  ::close(hold[1]);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace tutti::testing
