// The provider ibverbs: messages over InfiniBand and RoCE.
#include "tutti/provider/provider.hpp"

#include <algorithm>

#include "transports/core/host.hpp"
#include "transports/ibverbs/devices.hpp"
#include "transports/ibverbs/wire.hpp"

namespace tutti {
namespace {

constexpr std::string_view side_provider = "tcp";
constexpr double most_silence = 15;  // seconds; the same as for tcp

Viability viable(const Settings& settings) {
  const ibverbs::Survey found = ibverbs::survey(settings);
  if (found.endpoints.empty()) return {false, found.problem};
  if (std::string problem = ibverbs::registration_problem(found.endpoints.front().device); !problem.empty())
    return {false, std::move(problem)};
  const Found side = find_provider(side_provider, settings);
  if (!side.reason.empty()) return {false, "it needs tcp beside it, but " + side.reason};
  return {};
}

std::vector<std::string> details(const Settings& settings) { return ibverbs::survey(settings).lines; }

std::string domain(const Settings&) { return "verbs"; }

/// A card is what a rank publishes. Its first two lines are the rank's own; the rest is equal on all ranks of a host.
Text text_of(const ibverbs::Card& card) {
  const std::string text = card.text();
  const std::size_t own = text.find('\n', text.find('\n') + 1) + 1;
  return {text.substr(0, own), text.substr(own)};
}

std::vector<ibverbs::Endpoint> own_endpoints(const Settings& settings) {
  std::vector<ibverbs::Endpoint> found = ibverbs::survey(settings).endpoints;
  const bool named = settings.transport != Settings().transport;
  return named ? found : ibverbs::without_link_local(std::move(found));
}

/// Exchanges the ranks' endpoints. Queue pairs are created when a pair of ranks first communicates.
Connected connect(const Rendezvous& meeting) {
  ibverbs::Setup setup;
  setup.rank = meeting.rank;
  setup.size = meeting.size;
  setup.own = {meeting.rank, host_name(), own_endpoints(*meeting.settings)};
  // Half the limit, because a large message that fails is sent a second time, through the slots.
  setup.silence = Seconds(std::min(most_silence, meeting.settings->timeout / 2) / 2);
  const Texts cards = meeting.texts_of_peers("rdma endpoints", text_of(setup.own));
  Connected result;
  Rendezvous beside = meeting;
  beside.peers.clear();
  for (const int peer : meeting.peers) {
    if (cards.own(peer).empty()) continue;  // without a store no card is known
    setup.peers.push_back(ibverbs::Card::parse(std::string(cards.own(peer)) + std::string(cards.shared(peer))));
    if (setup.peers.back().rank != peer)
      throw Error(Code::protocol, "rank " + std::to_string(peer) + " published the RDMA addresses of another rank",
                  peer);
    if (!ibverbs::routes_between(meeting.rank, setup.own, setup.peers.back()).empty()) {
      beside.peers.push_back(peer);
      continue;
    }
    setup.peers.pop_back();
    result.unreached.push_back(peer);
    result.reason = "its RDMA devices and ours have no network in common";
  }
  auto side = std::make_unique<ibverbs::Side>(*meeting.listener);
  beside.listener = side.get();
  side->transport = find_provider(side_provider, *meeting.settings).provider->connect(beside).transport;
  auto wire = std::make_unique<ibverbs::VerbsWire>(std::move(setup), std::move(side), *meeting.listener);
  result.transport = make_stream_transport("ibverbs", meeting.rank, meeting.size, std::move(wire), *meeting.listener);
  return result;
}

constexpr Provider ibverbs_provider{.name = "ibverbs",
                                    .meaning = "RDMA between hosts, over InfiniBand or RoCE",
                                    .viable = viable,
                                    .domain = domain,
                                    .connect = connect,
                                    .details = details};
constexpr Module module{.provider = &ibverbs_provider};

}  // namespace
}  // namespace tutti

extern "C" const tutti::Module* tutti_module() { return &tutti::module; }
