// The first bytes of a TCP connection between ranks.
#include <algorithm>

#include "tests/fuzz/door.hpp"
#include "transports/tcp/handshake.hpp"

namespace tutti::fuzz {

bool take(Input input) {
  if (input.size() < tcp::hello_bytes) return false;
  tcp::HelloBytes bytes;
  std::copy_n(std::as_bytes(input).begin(), bytes.size(), bytes.begin());
  const auto hello = tcp::decode(bytes);
  if (!hello) return false;
  const tcp::Membership self{.rank = 1, .size = 4, .job = 7, .instance = 9, .secret = "secret"};
  const tcp::Verdict verdict = self.judge(*hello);
  const std::string why = tcp::reason(verdict, *hello);
  expect(why.find('\n') == why.npos, "a reason is no line");
  expect(verdict != tcp::Verdict::welcome || hello->from < 4, "a rank outside the job is welcome");
  return verdict == tcp::Verdict::welcome;
}

}  // namespace tutti::fuzz
