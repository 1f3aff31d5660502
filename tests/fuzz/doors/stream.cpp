// Fuzzes the stream protocol between ranks, which TCP and shared memory share: the input is frames that a peer sends.
#include "tests/fuzz/door.hpp"
#include "tests/support/memory_ranks.hpp"
#include "transports/stream/frames.hpp"

namespace tutti::fuzz {

using testing::MemoryNet;
using testing::MemoryRanks;

bool take(Input input) {
  static std::vector<std::byte> in(200'000), out(150'000);  // static, so that they outlive all messages
  MemoryRanks ranks(2, 700, 100'000, static_cast<unsigned>(input.size()));
  const Tag tag{1, 1, 0};
  ranks.recv(1, 0, tag, in);
  ranks.send(1, 0, tag, out);
  MemoryNet::Stream& stream = ranks.net.stream(0, 1);
  const ConstBytes bytes = std::as_bytes(input);
  stream.bytes.insert(stream.bytes.end(), bytes.begin(), bytes.end());
  for (int i = 0; i < 2000 && ranks[1].progress(); ++i) continue;
  ranks.net.room = MemoryNet::unlimited;  // otherwise the goodbye could wait for space
  const auto& causes = ranks.listener(1).causes();
  for (const Cause& why : causes) expect(std::string_view(why.text).find('\n') == std::string_view::npos, why.text);
  return causes.empty();
}

}  // namespace tutti::fuzz
