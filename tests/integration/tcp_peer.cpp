// One rank of the tcp wire, for tests with several hosts: tcp_peer RANK SIZE STORE_FOLDER BYTES.
// Exchanges BYTES with every other rank, and prints the route to each. Exits with 1 if a rank is not reached.
#include <cstdio>
#include <cstdlib>

#include "tests/support/tcp_mesh.hpp"
#include "tutti/settings.hpp"
#include "tutti/store.hpp"

using namespace tutti;

int main(int argc, char** argv) {
  if (argc != 5) return std::fprintf(stderr, "usage: tcp_peer RANK SIZE STORE_FOLDER BYTES\n"), 2;
  const int rank = std::atoi(argv[1]), size = std::atoi(argv[2]);
  const auto store = make_file_store(argv[3]);
  const Settings settings = Settings::from_environment();
  tutti::testing::Notes notes;
  const Deadline until = deadline_in(Seconds(30));

  auto acceptor = std::make_unique<tcp::Acceptor>(
      tutti::testing::member(rank, size), tutti::tcp::AcceptorSettings{settings.iface, settings.host_id}, notes);
  store->set("endpoint" + std::to_string(rank), tutti::testing::line_of(acceptor->endpoint()));
  std::vector<tcp::Endpoint> endpoints;
  for (int i = 0; i < size; ++i)
    endpoints.push_back(tutti::testing::endpoint_in(store->wait("endpoint" + std::to_string(i), until)));
  const auto wire = tutti::testing::meet(std::move(acceptor), size, endpoints, notes);

  tutti::testing::Talker talker(*wire, rank, size, static_cast<std::size_t>(std::atoll(argv[4])), 1);
  while (!talker.done() && !talker.wrong() && notes.causes().empty() && Clock::now() < until) talker.step();
  for (const Cause& cause : notes.causes()) std::printf("%s\n", cause.text);
  for (int peer = 0; peer < size; ++peer) {
    if (peer != rank) std::printf("rank %d reaches %d at %s\n", rank, peer, wire->describe(peer).c_str());
  }
  std::fflush(stdout);
  store->add("done", 1);  // no rank leaves while another still reads
  if (talker.done()) {
    while (store->add("done", 0) < size && Clock::now() < until) tutti::testing::wait_readable(-1, 1);
  }
  wire->close(deadline_in(Seconds(5)));
  return talker.done() && !talker.wrong() ? 0 : 1;
}
