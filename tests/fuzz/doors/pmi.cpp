// Answers of MPICH's hydra in the PMI-1 protocol, and rank 0's card (address and secret of its store) in one of them.
#include "collectives/bootstrap/pmi.hpp"

#include "collectives/bootstrap/served_store.hpp"
#include "tests/fuzz/door.hpp"

namespace tutti::fuzz {

bool take(Input input) {
  using launchers::Pmi;
  std::string_view rest = text_of(input);
  bool taken = false;
  while (!rest.empty()) {
    const std::string line(rest.substr(0, rest.find('\n')));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    taken |= !refuses([&] { Pmi::field_of(line, "cmd=get_maxes", "maxes", "kvsname_max"); });
    taken |= !refuses([&] { Pmi::field_of(line, "cmd=barrier_in", "barrier_out", ""); });
    taken |= !refuses([&] { launchers::parse_store_card(Pmi::field_of(line, "cmd=get", "get_result", "value")); });
  }
  return taken;
}

}  // namespace tutti::fuzz
