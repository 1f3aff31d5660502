// The endpoints of tcp ranks, which callers they accept, and the order in which addresses are tried, on invented hosts.
#include "transports/tcp/endpoint.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "transports/tcp/handshake.hpp"
#include "tutti/status.hpp"

namespace tutti::tcp {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Interface interface(const std::string& name, const std::string& address, int prefix) {
  return {name, Address::parse(address).value(), prefix};
}

Endpoint endpoint(int rank, const std::string& host, const std::vector<std::string>& addresses) {
  Endpoint made;
  made.rank = rank;
  made.instance = 42;
  made.host = made.identity = made.network = host;
  for (const std::string& address : addresses) {
    made.candidates.push_back({Address::parse(address).value(), 4711, "eth0"});
  }
  return made;
}

std::vector<std::string> texts(const std::vector<Candidate>& candidates) {
  std::vector<std::string> found;
  for (const Candidate& candidate : candidates) found.push_back(candidate.address.text());
  return found;
}

const std::vector<Interface> host = {interface("lo", "127.0.0.1", 8), interface("lo", "::1", 128),
                                     interface("eth0", "10.1.2.3", 16), interface("eth0", "fe80::1", 64),
                                     interface("ib0", "192.168.7.1", 24)};

TEST(TcpAddresses, TextAndBack) {
  for (const char* text : {"10.0.0.2", "::1", "fd00:88::4", "127.0.0.1"}) {
    EXPECT_EQ(Address::parse(text).value().text(), text);
  }
  for (const char* text : {"", "eth0", "10.0.0", "10.0.0.256", "fd00::g", "fe80::1%nosuch0"}) {
    EXPECT_FALSE(Address::parse(text)) << text;
  }
  EXPECT_EQ(endpoint_text(Address::parse("::1").value(), 80), "[::1]:80");
}

TEST(TcpAddresses, Within) {
  const auto within = [](const char* address, const char* network, int prefix) {
    return Address::parse(address).value().within(Address::parse(network).value(), prefix);
  };
  EXPECT_TRUE(within("10.1.255.255", "10.1.0.0", 16));
  EXPECT_FALSE(within("10.2.0.0", "10.1.0.0", 16));
  EXPECT_TRUE(within("10.3.0.0", "10.2.0.0", 15));
  EXPECT_TRUE(within("1.2.3.4", "0.0.0.0", 0));
  EXPECT_FALSE(within("::1", "0.0.0.0", 0));
  EXPECT_FALSE(within("10.0.0.1", "10.0.0.2", 32));
}

TEST(TcpAddresses, AllowedByNameAddressOrPrefix) {
  const auto allowed = [](const char* list) {
    std::vector<std::string> found;
    for (const Interface& i : allowed_interfaces(host, list)) found.push_back(i.address.text());
    return found;
  };
  EXPECT_EQ(allowed("").size(), host.size());
  EXPECT_THAT(allowed("eth0"), ElementsAre("10.1.2.3", "fe80::1"));
  EXPECT_THAT(allowed(" ib0 , ::1"), ElementsAre("::1", "192.168.7.1"));
  EXPECT_THAT(allowed("10.0.0.0/8,127.0.0.0/8"), ElementsAre("127.0.0.1", "10.1.2.3"));
  EXPECT_THAT(allowed("^eth0,lo"), ElementsAre("192.168.7.1"));
  EXPECT_THAT(allowed("^ docker0 , 10.0.0.0/8,127.0.0.1,::1"), ElementsAre("fe80::1", "192.168.7.1"));
  EXPECT_EQ(allowed("^").size(), host.size());
  for (const char* bad :
       {"eth1", "10.9.0.0/16", "10.1.2.3/33", "10.1.2.3/x", "eth0,wlan0", "eth0,^lo", "^eth0,lo,ib0"}) {
    try {
      allowed(bad);
      ADD_FAILURE() << bad << " was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::invalid);
      EXPECT_THAT(error.what(), HasSubstr("ib0 192.168.7.1/24"));
    }
  }
}

TEST(TcpEndpoint, TextAndBack) {
  const Endpoint sent = endpoint(3, "node 3", {"10.0.0.2", "fd00::2"});
  const Text text = sent.text();
  const Endpoint got = Endpoint::parse(3, text.own, text.shared);
  EXPECT_EQ(got.rank, 3);
  EXPECT_EQ(got.instance, 42u);
  EXPECT_EQ(got.host, "node 3");
  EXPECT_EQ(texts(got.candidates), texts(sent.candidates));
  EXPECT_EQ(got.network, "node 3");
  EXPECT_EQ(got.candidates[1].port, 4711);
  for (const char* bad : {"", "tcp 2\n", "tcp 1\nh\ni\n=\n", "tcp 2\nh\ni\nn\nnoaddress 0 eth0\n",
                          "tcp 2\nh\ni\nn\n10.0.0.1 2 eth0\n", "tcp 2\nh\ni\nn\n10.0.0.1 -1 eth0\n"}) {
    EXPECT_THROW(static_cast<void>(Endpoint::parse(0, "2a 1 2", bad)), Error) << bad;
  }
  for (const char* bad : {"", "x", "2a", "2a 0", "2a 65536", "2a x"})
    EXPECT_THROW(static_cast<void>(Endpoint::parse(0, bad, "tcp 2\nh\ni\nn\n10.0.0.1 0 eth0\n")), Error) << bad;
}

TEST(TcpEndpoint, RanksOfAHostShareAllButInstanceAndPorts) {
  Endpoint first = endpoint(0, "node 3", {"10.0.0.2", "fd00::2", "10.0.1.2"}), second = first;
  second.instance = 43;
  for (Candidate& candidate : second.candidates) candidate.port = candidate.port == 4711 ? 5000 : 5001;
  first.candidates[1].port = 4712;  // one listener for each family
  second.candidates[1].port = 5001;
  EXPECT_EQ(first.text().shared, second.text().shared);
  EXPECT_EQ(second.text().own, "2b 5000 5001");
  EXPECT_EQ(Endpoint::parse(1, second.text().own, second.text().shared).candidates[1].port, 5001);
  EXPECT_EQ(Endpoint::parse(1, second.text().own, second.text().shared).candidates[2].port, 5000);
}

TEST(TcpEndpoint, OrderOfCandidates) {
  const Endpoint self = endpoint(0, "here", {});
  const Endpoint neighbour = endpoint(1, "here", {"127.0.0.1", "8.8.8.8", "10.1.9.9", "fe80::2"});
  EXPECT_THAT(texts(candidates_for(neighbour, self, host)), ElementsAre("127.0.0.1", "10.1.9.9", "8.8.8.8"));
  const Endpoint other = endpoint(1, "there", {"127.0.0.1", "8.8.8.8", "fd00::1", "192.168.7.9", "fe80::2"});
  EXPECT_THAT(texts(candidates_for(other, self, host)), ElementsAre("192.168.7.9", "8.8.8.8"))
      << "no loopback, no IPv6 as this host has none, no link-local as there are others";
  const Endpoint bridged = endpoint(1, "there", {"10.1.2.3", "8.8.8.8"});
  EXPECT_THAT(texts(candidates_for(bridged, self, host)), ElementsAre("8.8.8.8")) << "10.1.2.3 is our own";
  const Endpoint scoped = endpoint(1, "there", {"127.0.0.1", "fe80::2"});
  EXPECT_THAT(texts(candidates_for(scoped, self, host)), ElementsAre("fe80::2"));
}

TEST(TcpEndpoint, LoopbackNeedsTheSameHostAndNetwork) {
  const Endpoint self = endpoint(0, "here", {});
  Endpoint other = endpoint(1, "here", {"127.0.0.1", "10.1.9.9"});
  other.network = "another namespace";
  EXPECT_THAT(texts(candidates_for(other, self, host)), ElementsAre("10.1.9.9"));
  other.network = self.network;
  other.identity = "set by the user";
  EXPECT_THAT(texts(candidates_for(other, self, host)), ElementsAre("10.1.9.9"));
  other.candidates.pop_back();
  EXPECT_THAT(texts(candidates_for(other, self, host)), ElementsAre("127.0.0.1")) << "the last resort";
}

TEST(TcpEndpoint, ConnectionsBetweenHosts) {
  const Endpoint self = endpoint(0, "here", {}), neighbour = endpoint(1, "here", {}), other = endpoint(1, "there", {});
  EXPECT_EQ(connections_between(neighbour, self, 0), 1);
  EXPECT_EQ(connections_between(other, self, 0), 4);
  for (const int wanted : {1, 3, 8}) {
    EXPECT_EQ(connections_between(neighbour, self, wanted), wanted);
    EXPECT_EQ(connections_between(other, self, wanted), wanted);
  }
}

Membership member(int rank) { return {rank, 4, job_hash("job"), 7, "secret"}; }

TEST(TcpHandshake, HelloAndBack) {
  const Hello sent = member(2).hello(1, 99);
  const Hello got = decode(encode(sent)).value();
  EXPECT_EQ(got.from, 2u);
  EXPECT_EQ(got.to, 1u);
  EXPECT_EQ(got.size, 4u);
  EXPECT_EQ(got.job, sent.job);
  EXPECT_EQ(got.connection, 0u);
  EXPECT_EQ(got.instance, 99u);
  EXPECT_EQ(got.nonce, sent.nonce);
  EXPECT_NE(got.nonce, member(2).hello(1, 99).nonce) << "a nonce is used once";
  const Hello third = decode(encode(member(2).hello(1 + 2 * 4, 99))).value();
  EXPECT_EQ(third.to, 1u);
  EXPECT_EQ(third.connection, 2u);
  HelloBytes garbage = encode(sent);
  garbage[3] ^= std::byte{1};
  EXPECT_FALSE(decode(garbage));
}

TEST(TcpHandshake, JudgesCallers) {
  const Hello good = member(2).hello(1, 7);
  EXPECT_EQ(member(1).judge(good), Verdict::welcome);
  Hello bad = good;
  bad.version = 1;
  EXPECT_EQ(member(1).judge(bad), Verdict::wrong_version);
  EXPECT_THAT(reason(Verdict::wrong_version, bad), HasSubstr("wire protocol 1, this rank 2"));
  bad = good;
  bad.job = 1;
  EXPECT_EQ(member(1).judge(bad), Verdict::wrong_job);
  bad = good;
  bad.size = 5;
  EXPECT_EQ(member(1).judge(bad), Verdict::wrong_size);
  bad = good;
  bad.instance = 8;
  EXPECT_EQ(member(1).judge(bad), Verdict::wrong_target);
  bad = good;
  bad.from = 4;
  EXPECT_EQ(member(1).judge(bad), Verdict::wrong_target);
  EXPECT_EQ(member(3).judge(good), Verdict::wrong_target);
  bad = good;
  bad.connection = most_connections - 1;
  EXPECT_EQ(member(1).judge(bad), Verdict::welcome) << "whether there may be so many is the acceptor's";
  ++bad.connection;
  EXPECT_EQ(member(1).judge(bad), Verdict::surplus);
}

TEST(TcpHandshake, ProofsDependOnAllOfIt) {
  const HelloBytes one = encode(member(2).hello(1, 7)), two = encode(member(1).hello(2, 7));
  const Digest proof = member(1).proof(Membership::Side::connector, one, two);
  EXPECT_EQ(proof, member(2).proof(Membership::Side::connector, one, two)) << "both ends compute the same";
  EXPECT_NE(proof, member(1).proof(Membership::Side::acceptor, one, two));
  EXPECT_NE(proof, member(1).proof(Membership::Side::connector, two, one));
  Membership stranger = member(1);
  stranger.secret = "guess";
  EXPECT_NE(proof, stranger.proof(Membership::Side::connector, one, two));
}

}  // namespace
}  // namespace tutti::tcp
