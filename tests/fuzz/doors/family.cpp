// The data that a process reads before it joins a run with masters: a file of addresses, and the servers' settings.
#include "collectives/bootstrap/served_store.hpp"
#include "collectives/parameter_server/serialization.hpp"
#include "engine/server/joining.hpp"
#include "tests/fuzz/door.hpp"

namespace tutti::fuzz {

bool take(Input input) {
  bool taken = false;
  write(folder() / "join", input);
  refuses([&] {
    for (const std::string& address : engine::read_join_file(folder().string())) {
      launchers::parse_store_card(address);
      taken = true;
    }
  });
  return !refuses([&] { engine::Family::read(read_settings(std::as_bytes(input))); }) || taken;
}

}  // namespace tutti::fuzz
