// What ranks publish about themselves so that others can connect: addresses, RDMA devices, cores.
#include "transports/tcp/endpoint.hpp"

#include "tests/fuzz/door.hpp"
#include "transports/core/host.hpp"
#include "tutti/status.hpp"
#ifdef TUTTI_FUZZ_IBVERBS
#include "transports/ibverbs/endpoint.hpp"
#endif

namespace tutti::fuzz {
namespace {

bool has_addresses(std::string_view text) {
  static const std::vector<Interface> own{{"lo", *Address::parse("127.0.0.1"), 8},
                                          {"eth0", *Address::parse("10.0.0.7"), 24},
                                          {"eth0", *Address::parse("fe80::7"), 64}};
  static const tcp::Endpoint self{1, 2, "b", "b", "b", {}};
  return !refuses([&] {
    const std::size_t line = text.find('\n');
    if (line == text.npos) throw Error(Code::protocol, "one part alone");
    const tcp::Endpoint peer = tcp::Endpoint::parse(0, text.substr(0, line), text.substr(line + 1));
    for (const tcp::Candidate& each : tcp::candidates_for(peer, self, own)) {
      expect(each.port > 0 && each.port < 65536, "no port");
      endpoint_text(each.address, each.port);
    }
    const Text again = peer.text();
    tcp::Endpoint::parse(0, again.own, again.shared);
  });
}

bool has_texts(std::string_view bytes) {
  return !refuses([&] {
    const Texts texts = Texts::parse(bytes);
    Texts twice = texts;
    twice.append(texts);
    expect(Texts::parse(twice.bytes()).size() == 2 * texts.size(), "texts are lost");
  });
}

bool has_devices([[maybe_unused]] std::string_view text) {
#ifdef TUTTI_FUZZ_IBVERBS
  return !refuses([&] {
    const ibverbs::Card peer = ibverbs::Card::parse(text);
    ibverbs::choose_routes(peer.endpoints, peer.endpoints, 4);
    ibverbs::Card::parse(peer.text());
  });
#else
  return false;
#endif
}

}  // namespace

bool take(Input input) {
  const std::string_view text = text_of(input);
  const bool cores = !parse_core_list(std::string(text)).empty(), devices = has_devices(text);
  const bool texts = has_texts(text);
  return has_addresses(text) || devices || cores || texts;
}

}  // namespace tutti::fuzz
